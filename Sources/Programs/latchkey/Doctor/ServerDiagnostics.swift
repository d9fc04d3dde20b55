import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyServices

/// Checks that the identity server answers and knows the client. Does not log in.
struct ServerDiagnostics {
    private static let timeoutSeconds = 10

    let settings: ProgramSettings

    func check() async -> Check {
        let name = "server"
        guard let text = settings.endpoint, Endpoint(text) != nil,
            let client = settings.clientID
        else {
            return .warning(
                name, "No identity server is configured. Keys work; logins do not.",
                advice: settings.missingServer.recovery)
        }
        let transport = CurlTransport(timeout: Self.timeoutSeconds)
        do throws(LoginError) {
            let metadata = try await ProviderMetadata.read(
                at: text, over: ServerConnection<LoginErrorCode>(transport: transport))
            guard let page = metadata[.authorization] else {
                throw LoginError(.missingEndpoint(.authorization))
            }
            guard try await knows(client, at: page, over: transport) else {
                return .warning(
                    name,
                    "The identity server \(text) does not know the client ‘\(client)’ or its redirect URI.",
                    advice:
                        "Correct --client-id, or register http://127.0.0.1/callback for it at the server."
                )
            }
            let locker = metadata[.lockerEnrolment] == nil ? "and no locker" : "and the locker"
            return .ok(name, "The identity server \(text) answers; it offers logins \(locker).")
        } catch {
            guard error.code == .network else {
                return .warning(
                    name, "The server at \(text) is not an identity server: \(error.reason).",
                    advice: "Check the address, and proxies on the way to it.")
            }
            return .warning(
                name, "The identity server \(text) cannot be reached: \(error.reason).",
                advice: error.advice)
        }
    }

    /// Requests a login with `prompt=none`. For a known client the server redirects with an error;
    /// for an unknown client or redirect URI it shows the error itself (RFC 6749 section 4.1.2.1).
    private func knows(
        _ client: String, at page: Endpoint, over transport: CurlTransport
    ) async throws(LoginError) -> Bool {
        let challenge = PKCE().codeChallenge
        let query = FormEncoding.encode([
            ("response_type", "code"), ("client_id", client),
            ("redirect_uri", "http://127.0.0.1/callback"),
            ("scope", "openid"), ("state", "doctor"), ("prompt", "none"),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"), ("x_suppress_idp_session_cookie", "true"),
        ])
        let path = page.path + (page.path.contains("?") ? "&" : "?") + query
        let connection = ServerConnection<LoginErrorCode>(transport: transport)
        let response = try await connection.send(page.onSameOrigin(path: path).request(.get))
        return !(400..<500).contains(response.status)
    }
}
