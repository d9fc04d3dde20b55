internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

extension LoginError {
    static func oauth(_ operation: String, _ error: OAuthError, status: Int?) -> LoginError {
        let refusal = ServerRefusal(error, status: status)
        return LoginError(
            operation: operation, code: refusal.isRateLimit ? .rateLimited : .oauthError, reason: refusal.reason,
            recovery: refusal.recovery, oauthError: error, httpStatus: status)
    }

    static func server(_ operation: String, _ error: ServerError, status: Int) -> LoginError {
        let refusal = ServerRefusal(status: status)
        guard !refusal.isRateLimit else {
            return LoginError(
                operation: operation, code: .rateLimited, reason: refusal.reason, recovery: refusal.recovery,
                serverError: error, httpStatus: status)
        }
        return LoginError(
            operation: operation, code: .serverError, reason: "the server refused: \(error.message) (\(error.reason))",
            recovery: "Ask whoever runs the server what this means, or log in again.", serverError: error,
            httpStatus: status)
    }

    static func unexpectedStatus(_ operation: String, _ status: Int) -> LoginError {
        let refusal = ServerRefusal(status: status)
        return LoginError(
            operation: operation, code: refusal.isRateLimit ? .rateLimited : .unexpectedStatus, reason: refusal.reason,
            recovery: refusal.recovery, httpStatus: status)
    }

    /// What came of a login in the browser.
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
                    operation: operation, code: .timedOut, reason: "nobody finished the login in the browser in time",
                    recovery: "Start again when you are ready.")
            case .noPort(let why):
                LoginError(
                    operation: operation, code: .network, reason: "no port on the loopback interface can be opened",
                    recovery: "Check that the loopback interface is up.", underlying: .init(layer: "nio", text: why))
            }
    }

    /// What is wrong with an ID token.
    init(_ operation: String, _ flaw: IDTokenFlaw) {
        self =
            switch flaw {
            case .clock(let ahead): .clockSkew(operation, seconds: ahead)
            default: .invalidToken(operation, "the server's ID token \(flaw.reason)")
            }
    }

    /// What a transport's error means.
    static func transport(_ operation: String, _ error: KeystoreError) -> LoginError {
        LoginError(
            operation: operation, code: error.code == .cancelled ? .cancelled : .network, reason: error.reason,
            recovery: error.recovery, underlying: error.underlying)
    }

    static func invalidResponse(_ operation: String, _ reason: String) -> LoginError {
        LoginError(
            operation: operation, code: .invalidResponse, reason: reason,
            recovery: "Check the server's address, and that it is an Authgear server.")
    }

    static func invalidMetadata(_ operation: String, _ flaw: MetadataFlaw) -> LoginError {
        LoginError(operation: operation, code: .invalidResponse, reason: flaw.reason, recovery: flaw.recovery)
    }

    static func invalidToken(_ operation: String, _ reason: String) -> LoginError {
        LoginError(
            operation: operation, code: .invalidToken, reason: reason,
            recovery: "Nothing was stored. Log in again; if it happens again, don't trust the server.")
    }

    static func cancelled(_ operation: String, _ reason: String = "it was cancelled") -> LoginError {
        LoginError(
            operation: operation, code: .cancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    static func linkReused(_ operation: String) -> LoginError {
        LoginError(
            operation: operation, code: .linkReused,
            reason: "the link to the login page was followed twice, the first time perhaps by somebody else",
            recovery: "Start again, and open the link once; if it happens again, look for who else is on this machine.")
    }

    static func notEnabled(_ operation: String) -> LoginError {
        LoginError(
            operation: operation, code: .notEnabled, reason: "biometric login is not enabled here",
            recovery: "Log in, then enable it.")
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
            recovery: "Look at the status, then try again.")
    }

    static func unauthenticated(_ operation: String, recovery: String = "Log in, then try again.") -> LoginError {
        LoginError(
            operation: operation, code: .unauthenticated, reason: "nobody is logged in, or the session has ended",
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
            reason: "it was not the user for whom biometric login is enabled here who logged in",
            recovery: "Log in as that user, or disable biometric login first; another user can have another container.")
    }

    /// - Parameter seconds: How far this machine's clock is ahead of the server's; negative when it is behind.
    static func clockSkew(_ operation: String, seconds: Double) -> LoginError {
        LoginError(
            operation: operation, code: .clockSkew,
            reason: "this machine's clock is \(Int(abs(seconds))) seconds "
                + (seconds > 0 ? "ahead of" : "behind") + " the server's",
            recovery: "Set the clock (for example with ‘timedatectl set-ntp true’) and try again; the key is kept.")
    }

    /// Whether this is the answer that covers everything from a wrong clock to a removed identity.
    var isInvalidCredentials: Bool {
        oauthError?.error == "invalid_grant" && oauthError?.description == "InvalidCredentials"
    }

    /// Whether the server says that the session is over.
    var isInvalidGrant: Bool {
        oauthError?.error == "invalid_grant" || serverError?.reason == "InvalidGrant"
    }

    /// Whether the server certainly did not do what it was asked. Where no answer came, or one that blames the server
    /// itself, it may have done it.
    var isDefiniteRefusal: Bool {
        httpStatus.map { (400..<500).contains($0) } ?? false
    }
}

extension LoginError {
    static func invalidInput(_ operation: String, _ reason: String) -> LoginError {
        LoginError(operation: operation, code: .invalidInput, reason: reason, recovery: "Correct it and try again.")
    }
}
