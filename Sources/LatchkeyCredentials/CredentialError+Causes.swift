internal import Latchkey

extension CredentialError {
    static func notConfigured() -> CredentialError {
        CredentialError(
            operation: "use the credentials", code: .notConfigured, reason: "no storage is set",
            recovery: "Set Credential.storage when the program starts.")
    }

    static func notFound(_ operation: String, _ id: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .notFound, reason: "there is no credential ‘\(id)’",
            recovery: "Look at which credentials are stored.")
    }

    static func duplicate(_ id: String) -> CredentialError {
        CredentialError(
            operation: "store the token", code: .duplicate, reason: "a credential ‘\(id)’ is stored already",
            recovery: "Use the stored one, or remove it first.")
    }

    static func missing(_ operation: String, _ what: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .missingToken, reason: "the credential has no \(what)",
            recovery: "Sign in again, and ask the server for one.")
    }

    static func unreadable(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidInput, reason: reason,
            recovery: "Give the whole JSON object that the server's token endpoint sent.")
    }

    static func invalidInput(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidInput, reason: reason, recovery: "Correct it and try again.")
    }

    static func invalidResponse(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidResponse, reason: reason,
            recovery: "Check the server's address, and that it speaks OpenID Connect.")
    }

    static func invalidToken(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidToken, reason: "the ID token \(reason)",
            recovery: "Sign in again; if it happens again, don't trust the server.")
    }

    static func keysTooFresh(_ operation: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .transient,
            reason: "the ID token is not signed with a key that the server showed a moment ago",
            recovery: "Try again in half a minute, when the server's keys are read again.")
    }

    static func unsupported(_ operation: String, _ reason: String, recovery: String) -> CredentialError {
        CredentialError(operation: operation, code: .unsupported, reason: reason, recovery: recovery)
    }

    /// What a transport's error means.
    static func transport(_ operation: String, _ error: KeystoreError) -> CredentialError {
        CredentialError(
            operation: operation, code: error.code == .cancelled ? .cancelled : .network, reason: error.reason,
            recovery: error.recovery, underlying: error.underlying)
    }

    /// What an answer that is no success means.
    static func refusal(_ operation: String, _ error: OAuth2Error?, status: Int) -> CredentialError {
        let refusal = ServerRefusal(error, status: status)
        let code: Code = error == nil ? .unexpectedStatus : .oauthError
        return CredentialError(
            operation: operation, code: refusal.isRateLimit ? .rateLimited : code, reason: refusal.reason,
            recovery: refusal.recovery, oauthError: error, httpStatus: status)
    }

    /// The same, where the server's `invalid_grant` says that it takes the refresh token no more.
    var ofRefresh: CredentialError {
        guard oauthError?.error == "invalid_grant" else { return self }
        return CredentialError(
            operation: operation, code: .signInAgain, reason: "the server takes the refresh token no more",
            recovery: "Sign in again.", oauthError: oauthError, httpStatus: httpStatus)
    }
}
