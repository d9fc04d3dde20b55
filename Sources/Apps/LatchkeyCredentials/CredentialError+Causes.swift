internal import Latchkey
package import LatchkeyOAuth

extension CredentialErrorCode: OAuthErrorCode {
    package init(_ failure: OAuthFailure) {
        self =
            switch failure {
            case .invalidAddress: .invalidInput
            case .transport(let error): error.code == .cancelled ? .cancelled : .network
            case .refused(let refusal) where refusal.isRateLimit: .rateLimited
            case .refused(let refusal): refusal.oauthError == nil ? .unexpectedStatus : .oauthError
            case .malformed, .tokens, .metadata, .authorization: .invalidResponse
            case .missingEndpoint, .attestation, .idToken(.algorithms), .proof(.noKey): .unsupported
            case .proof(.lostKey): .signInAgain
            case .proof(.hardware): .refused
            case .proof(.clock), .proof(.refused): .oauthError
            case .idToken: .invalidToken
            }
    }
}

extension CredentialError {
    static var notConfigured: CredentialError {
        CredentialError(
            operation: "use the credentials", code: .notConfigured, reason: "no storage is set",
            recovery: "Call CredentialStore.bootstrap when the program starts.")
    }

    static func notFound(_ id: String) -> CredentialError {
        CredentialError(
            code: .notFound, reason: "there is no credential ‘\(id)’",
            recovery: "List the stored credentials.")
    }

    static func duplicate(_ id: String) -> CredentialError {
        CredentialError(
            code: .duplicate, reason: "a credential ‘\(id)’ is stored already",
            recovery: "Use the stored one, or remove it first.")
    }

    static func missing(_ what: String) -> CredentialError {
        CredentialError(
            code: .missingToken, reason: "the credential has no \(what)",
            recovery: "Sign in again, and request one.")
    }

    static func unreadable(
        _ reason: String,
        recovery: Recovery = "Pass the whole JSON object that the server's token endpoint sent."
    ) -> CredentialError {
        CredentialError(
            operation: "read the token", code: .invalidInput, reason: reason, recovery: recovery)
    }

    static func invalidInput(_ reason: String) -> CredentialError {
        CredentialError(
            code: .invalidInput, reason: reason, recovery: "Correct the value and try again.")
    }

    static func invalidResponse(
        _ reason: String,
        recovery: Recovery = "Check the server's address, and that it supports OpenID Connect."
    ) -> CredentialError {
        CredentialError(code: .invalidResponse, reason: reason, recovery: recovery)
    }

    static func invalidToken(_ reason: String) -> CredentialError {
        CredentialError(
            code: .invalidToken, reason: "the ID token \(reason)",
            recovery: "Sign in again. If it happens again, show this text to the server's operator."
        )
    }

    static func unsupported(_ reason: String, recovery: Recovery) -> CredentialError {
        CredentialError(code: .unsupported, reason: reason, recovery: recovery)
    }

    /// The same error, or `signInAgain` if the server refused the refresh token with
    /// `invalid_grant`.
    var ofRefresh: CredentialError {
        // A server that fails has not decided.
        guard oauthError?.error == "invalid_grant", details?.isServerFailure != true else {
            return self
        }
        return CredentialError(
            code: .signInAgain, reason: "the server no longer accepts the refresh token",
            recovery: "Sign in again.",
            details: details)
    }
}
