internal import FoundationEssentials
internal import Latchkey
package import LatchkeyOAuth

extension CredentialError: OAuthClientError {
    package init(_ operation: String, _ failure: OAuthFailure) {
        self =
            switch failure {
            case .invalidAddress(let address):
                .invalidInput(operation, "‘\(address)’ is neither an https address nor on this machine")
            case .transport(let error):
                CredentialError(
                    operation: operation, code: error.code == .cancelled ? .cancelled : .network, reason: error.reason,
                    recovery: error.recovery, underlying: error.underlying)
            case .refused(let status, let body): .refused(operation, status, OAuthFailure.error(in: body))
            case .malformed: .invalidResponse(operation, "the server's response does not follow its protocol")
            case .metadata(let flaw):
                CredentialError(
                    operation: operation, code: .invalidResponse, reason: flaw.reason, recovery: flaw.recovery)
            case .missingEndpoint(let name): .unsupported(operation, missing: name)
            case .idToken(let flaw): .invalidToken(operation, flaw.reason)
            case .keysTooFresh:
                CredentialError(
                    operation: operation, code: .transient,
                    reason: "the ID token is not signed with one of the server's keys, which were read a moment ago",
                    recovery: "Try again in 30 seconds, when the server's keys can be read again.")
            }
    }

    private static func refused(_ operation: String, _ status: Int, _ error: OAuth2Error?) -> CredentialError {
        let refusal = ServerRefusal(error, status: status)
        let code: Code = error == nil ? .unexpectedStatus : .oauthError
        return CredentialError(
            operation: operation, code: refusal.isRateLimit ? .rateLimited : code, reason: refusal.reason,
            recovery: refusal.recovery, oauthError: error, httpStatus: status)
    }

    private static func unsupported(
        _ operation: String, missing name: ProviderMetadata.EndpointName
    ) -> CredentialError {
        let recovery =
            switch name {
            case .revocation: "Remove the credential from this device."
            case .introspection: "Request the user's data instead."
            default: "Use the claims of the ID token."
            }
        return .unsupported(operation, "the server's metadata has no ‘\(name.rawValue)’", recovery: recovery)
    }

    static func notConfigured() -> CredentialError {
        CredentialError(
            operation: "use the credentials", code: .notConfigured, reason: "no storage is set",
            recovery: "Set Credential.storage when the program starts.")
    }

    static func notFound(_ operation: String, _ id: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .notFound, reason: "there is no credential ‘\(id)’",
            recovery: "List the stored credentials.")
    }

    static func duplicate(_ id: String) -> CredentialError {
        CredentialError(
            operation: "store the token", code: .duplicate, reason: "a credential ‘\(id)’ is stored already",
            recovery: "Use the stored one, or remove it first.")
    }

    static func missing(_ operation: String, _ what: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .missingToken, reason: "the credential has no \(what)",
            recovery: "Sign in again, and request one.")
    }

    static func unreadable(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidInput, reason: reason,
            recovery: "Pass the whole JSON object that the server's token endpoint sent.")
    }

    static func invalidInput(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidInput, reason: reason, recovery: "Correct it and try again.")
    }

    static func invalidResponse(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidResponse, reason: reason,
            recovery: "Check the server's address, and that it supports OpenID Connect.")
    }

    static func invalidToken(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidToken, reason: "the ID token \(reason)",
            recovery: "Sign in again. If it happens again, do not trust the server.")
    }

    static func unsupported(_ operation: String, _ reason: String, recovery: String) -> CredentialError {
        CredentialError(operation: operation, code: .unsupported, reason: reason, recovery: recovery)
    }

    /// The same error, or `signInAgain` if the server refused the refresh token with `invalid_grant`.
    var ofRefresh: CredentialError {
        guard oauthError?.error == "invalid_grant" else { return self }
        return CredentialError(
            operation: operation, code: .signInAgain, reason: "the server no longer accepts the refresh token",
            recovery: "Sign in again.", oauthError: oauthError, httpStatus: httpStatus)
    }
}
