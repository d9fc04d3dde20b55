internal import FoundationEssentials
internal import Latchkey
package import LatchkeyOAuth

extension LoginError: OAuthClientError {
    package init(_ operation: String, _ failure: OAuthFailure) {
        self =
            switch failure {
            case .invalidAddress(let address):
                .invalidInput(operation, "‘\(address)’ is neither an https address nor on this machine")
            case .transport(let error):
                LoginError(
                    operation: operation, code: error.code == .cancelled ? .cancelled : .network, reason: error.reason,
                    recovery: error.recovery, underlying: error.underlying)
            case .refused(let status, let body): .refused(operation, status, body)
            case .malformed, .keysTooFresh:
                .invalidResponse(operation, "the server's response does not follow its protocol")
            case .missingEndpoint(let name):
                .invalidResponse(operation, "the server's metadata has no ‘\(name.rawValue)’")
            case .metadata(let flaw):
                LoginError(operation: operation, code: .invalidResponse, reason: flaw.reason, recovery: flaw.recovery)
            case .idToken(.clock(let ahead)): .clockSkew(operation, seconds: ahead)
            case .idToken(let flaw): .invalidToken(operation, "the server's ID token \(flaw.reason)")
            }
    }

    /// The error for an unsuccessful response. The body is decoded as an OAuth error first, then as an API error.
    private static func refused(_ operation: String, _ status: Int, _ body: Data) -> LoginError {
        if let error = OAuthFailure.error(in: body) { return .oauth(operation, error, status: status) }
        let refusal = ServerRefusal(status: status)
        let envelope = try? JSONDecoder().decode(ServerError.Envelope.self, from: body)
        if let error = envelope?.error, !refusal.isRateLimit {
            return LoginError(
                operation: operation, code: .serverError,
                reason: "the server refused: \(error.message) (\(error.reason))",
                recovery: "Ask the server's operator what this means, or log in again.", serverError: error,
                httpStatus: status)
        }
        return LoginError(
            operation: operation, code: refusal.isRateLimit ? .rateLimited : .unexpectedStatus, reason: refusal.reason,
            recovery: refusal.recovery, serverError: envelope?.error, httpStatus: status)
    }

    static func oauth(_ operation: String, _ error: OAuthError, status: Int?) -> LoginError {
        let refusal = ServerRefusal(error, status: status)
        return LoginError(
            operation: operation, code: refusal.isRateLimit ? .rateLimited : .oauthError, reason: refusal.reason,
            recovery: refusal.recovery, oauthError: error, httpStatus: status)
    }

    /// The error for a login in the browser that failed.
    init(_ operation: String, _ failure: AuthorizationFailure) {
        self =
            switch failure {
            case .cancelled: .cancelled(operation)
            case .linkReused: .linkReused(operation)
            case .refused(let error) where ["cancel", "access_denied"].contains(error.error):
                .cancelled(operation, "it was cancelled in the browser")
            case .refused(let error): .oauth(operation, error, status: nil)
            case .otherIssuer(let named, let expected):
                LoginError(
                    operation: operation, code: .invalidResponse,
                    reason: AuthorizationFailure.reason(forIssuer: named, expected: expected),
                    recovery: "No code was redeemed. If it happens again, do not trust the server.")
            case .timedOut:
                LoginError(
                    operation: operation, code: .timedOut, reason: "the login in the browser was not finished in time",
                    recovery: "Start again when you are ready.")
            case .noPort(let why):
                LoginError(
                    operation: operation, code: .network, reason: "no port on the loopback interface can be opened",
                    recovery: "Check that the loopback interface is up.", underlying: .init(layer: "nio", text: why))
            }
    }

    static func invalidResponse(_ operation: String, _ reason: String) -> LoginError {
        LoginError(
            operation: operation, code: .invalidResponse, reason: reason,
            recovery: "Check the server's address, and that it is an Authgear server.")
    }

    static func invalidToken(_ operation: String, _ reason: String) -> LoginError {
        LoginError(
            operation: operation, code: .invalidToken, reason: reason,
            recovery: "Nothing was stored. Log in again. If it happens again, do not trust the server.")
    }

    static func cancelled(_ operation: String, _ reason: String = "it was cancelled") -> LoginError {
        LoginError(
            operation: operation, code: .cancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    static func linkReused(_ operation: String) -> LoginError {
        LoginError(
            operation: operation, code: .linkReused,
            reason: "the link to the login page was opened twice, the first time perhaps by another user",
            recovery:
                "Start again, and open the link once. If it happens again, check which other users are logged in on this machine."
        )
    }

    static func notEnabled(_ operation: String) -> LoginError {
        LoginError(
            operation: operation, code: .notEnabled, reason: "biometric login is not enabled here",
            recovery: "To enable it, run ‘latchkey login’, then ‘latchkey enable’.")
    }

    static func otherServer(_ operation: String, stored: LoginServer, configured: LoginServer) -> LoginError {
        LoginError(
            operation: operation, code: .conflict,
            reason: "the stored login belongs to \(stored), and the configured server is \(configured)",
            recovery:
                "Configure \(stored), or use another container. To remove the stored login from this device without "
                + "contacting a server, log out with force.")
    }

    static func unknownServer(_ operation: String, configured: LoginServer) -> LoginError {
        LoginError(
            operation: operation, code: .conflict,
            reason: "an earlier version stored the login without its server, and the user has not confirmed that it "
                + "belongs to \(configured)",
            recovery:
                "If the login belongs to that server, confirm it at the terminal, with --bind-server, or with "
                + "‘bindsEarlierLogin’ in a program.")
    }

    static func changedElsewhere(_ operation: String) -> LoginError {
        LoginError(
            operation: operation, code: .conflict,
            reason: "another program changed the stored login at the same moment",
            recovery: "Show the status, then try again.")
    }

    static func unauthenticated(_ operation: String, recovery: String = "Log in, then try again.") -> LoginError {
        LoginError(
            operation: operation, code: .unauthenticated, reason: "no user is logged in, or the session has ended",
            recovery: recovery)
    }

    static func identityNotFound(
        _ operation: String, _ recovery: String, oauthError: OAuthError? = nil, serverError: ServerError? = nil,
        httpStatus: Int? = nil
    ) -> LoginError {
        LoginError(
            operation: operation, code: .identityNotFound,
            reason: "the server does not know this device's key; it may have been removed on the settings page",
            recovery: recovery, oauthError: oauthError, serverError: serverError, httpStatus: httpStatus)
    }

    static func userMismatch(_ operation: String) -> LoginError {
        LoginError(
            operation: operation, code: .userMismatch,
            reason: "a different user logged in; biometric login on this device belongs to another account",
            recovery:
                "Log in with that account, or disable biometric login first. Use another container for another account."
        )
    }

    /// - Parameter seconds: How far this machine's clock is ahead of the server's; negative when it is behind.
    static func clockSkew(_ operation: String, seconds: Double) -> LoginError {
        LoginError(
            operation: operation, code: .clockSkew,
            reason: "this machine's clock is \(Int(abs(seconds))) seconds "
                + (seconds > 0 ? "ahead of" : "behind") + " the server's",
            recovery: "Set the clock (for example with ‘timedatectl set-ntp true’) and try again; the key is kept.")
    }

    /// Whether this is the server's error for a wrong clock, a used challenge or a removed key.
    var isInvalidCredentials: Bool {
        oauthError?.error == "invalid_grant" && oauthError?.description == "InvalidCredentials"
    }

    /// Whether the server has ended the session.
    var isInvalidGrant: Bool {
        oauthError?.error == "invalid_grant" || serverError?.reason == "InvalidGrant"
    }

    /// Whether the server certainly did not carry out the request. Without a response, or with a 5xx status, it may have.
    var isDefiniteRefusal: Bool {
        httpStatus.map { (400..<500).contains($0) } ?? false
    }

    static func invalidInput(_ operation: String, _ reason: String) -> LoginError {
        LoginError(operation: operation, code: .invalidInput, reason: reason, recovery: "Correct it and try again.")
    }
}
