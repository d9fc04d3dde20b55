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
        guard let text = settings.endpoint, let endpoint = Endpoint(text),
            let client = settings.clientID
        else {
            return .warning(
                name, "No identity server is configured. Keys work; logins do not.",
                advice: settings.missingServer.recovery)
        }
        let transport = CurlTransport(timeout: Self.timeoutSeconds)
        let request = endpoint.appending("/.well-known/openid-configuration").request(.get)
        do throws(KeystoreError) {
            let (response, body) = try await transport.send(request, body: [])
            guard response.status.code == 200,
                let offer = try? ReceivedJSON.decode(Offer.self, from: Data(body))
            else {
                return .warning(
                    name, "The server at \(text) is not an identity server.",
                    advice: "Check the address, and proxies on the way to it.")
            }
            guard try await knows(client, at: offer.authorization, over: transport) else {
                return .warning(
                    name,
                    "The identity server \(text) does not know the client ‘\(client)’ or its redirect URI.",
                    advice:
                        "Correct --client-id, or register http://127.0.0.1/callback for it at the server."
                )
            }
            let locker = offer.locker == nil ? "and no locker" : "and the locker"
            return .ok(name, "The identity server \(text) answers; it offers logins \(locker).")
        } catch {
            return .warning(
                name, "The identity server \(text) cannot be reached: \(error.reason).",
                advice: error.advice)
        }
    }

    /// Requests a login with `prompt=none`. For a known client the server redirects with an error;
    /// for an unknown client or redirect URI it shows the error itself (RFC 6749 section 4.1.2.1).
    private func knows(
        _ client: String, at page: Endpoint, over transport: CurlTransport
    ) async throws(KeystoreError) -> Bool {
        let challenge = PKCE.random().challenge
        let query = FormEncoding.encode([
            ("response_type", "code"), ("client_id", client),
            ("redirect_uri", "http://127.0.0.1/callback"),
            ("scope", "openid"), ("state", "doctor"), ("prompt", "none"),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"), ("x_suppress_idp_session_cookie", "true"),
        ])
        let path = page.path + (page.path.contains("?") ? "&" : "?") + query
        let (response, _) = try await transport.send(
            page.onSameOrigin(path: path).request(.get), body: [])
        return !(400..<500).contains(response.status.code)
    }

    private struct Offer: Decodable {
        let issuer: String
        let authorization: Endpoint
        let locker: String?

        private enum CodingKeys: String, CodingKey {
            case issuer
            case authorization = "authorization_endpoint"
            case locker = "locker_enrolment_endpoint"
        }
    }
}
