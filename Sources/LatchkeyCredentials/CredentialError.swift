public import FoundationEssentials
public import Latchkey

/// Why something with a credential did not happen, and what a person can do about it.
///
/// What the hardware, the store or the network says comes as `KeystoreError`, unchanged; this is everything else. Two
/// errors are equal when their ``code`` is equal. Those who know AuthFoundation find its errors again as:
///
/// | AuthFoundation | here |
/// |---|---|
/// | `TokenError.tokenNotFound`, `duplicateTokenAdded` | `KeystoreError` `notFound`, `conflict` |
/// | `OAuth2Error.missingToken`, `server`, `network` | `missingToken`, `oauthError`, `KeystoreError` `unavailable` |
/// | `JWTError` | `invalidToken`, with the ``flaw`` |
/// | `KeychainError` of a cancelled or locked prompt | `KeystoreError` `cancelled`, `wrongProof`, `lockedOut` |
public struct CredentialError: Error, Sendable {
    /// What was being done, as a verb phrase: `refresh the token`.
    public let operation: String
    /// The one word for what went wrong.
    public let code: Code
    /// One clause: the cause.
    public let reason: String
    /// One sentence: what to do next.
    public let recovery: String
    /// What the server said, where it did.
    public let serverError: ServerError?
    /// The status of the server's answer, where it was an answer that went wrong.
    public let httpStatus: Int?
    /// What is wrong with an ID token. Set with `invalidToken`.
    public let flaw: IDTokenFlaw?

    init(
        operation: String, code: Code, reason: String, recovery: String, serverError: ServerError? = nil,
        httpStatus: Int? = nil, flaw: IDTokenFlaw? = nil
    ) {
        self.operation = operation
        self.code = code
        self.reason = reason
        self.recovery = recovery
        self.serverError = serverError
        self.httpStatus = httpStatus
        self.flaw = flaw
    }

    /// The vocabulary.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case missingToken, oauthError, unexpectedStatus, invalidResponse, invalidToken, invalidInput, noEndpoint
            case invalidGrant
        }

        private let name: Name
        /// The same in the vocabulary of `KeystoreError`, from which a program's exit code follows.
        public let keystoreCode: KeystoreError.Code

        /// The credential has no token of the kind that it takes.
        public static let missingToken = Code(name: .missingToken, keystoreCode: .notFound)
        /// The server no longer accepts the refresh token: the person must sign in again.
        public static let invalidGrant = Code(name: .invalidGrant, keystoreCode: .refused)
        /// The server said no, in the words of ``CredentialError/serverError``.
        public static let oauthError = Code(name: .oauthError, keystoreCode: .refused)
        /// The server answered with ``CredentialError/httpStatus`` and no explanation.
        public static let unexpectedStatus = Code(name: .unexpectedStatus, keystoreCode: .refused)
        /// The server's answer is not what its protocol says.
        public static let invalidResponse = Code(name: .invalidResponse, keystoreCode: .refused)
        /// An ID token is not the server's, not for this client, not for this sign-in, or not in time.
        public static let invalidToken = Code(name: .invalidToken, keystoreCode: .refused)
        /// The server does not offer what was asked of it.
        public static let noEndpoint = Code(name: .noEndpoint, keystoreCode: .unsupported)
        /// An argument is out of its bounds.
        public static let invalidInput = Code(name: .invalidInput, keystoreCode: .invalidInput)

        /// The word, for example `missingToken`.
        public var description: String { name.rawValue }

        public static func == (left: Code, right: Code) -> Bool { left.name == right.name }
        public func hash(into hasher: inout Hasher) { hasher.combine(name) }
    }
}

extension CredentialError: Equatable {
    public static func == (left: CredentialError, right: CredentialError) -> Bool { left.code == right.code }
}

extension CredentialError: CustomStringConvertible, LocalizedError {
    /// One sentence for people: `Could not refresh the token: there is no refresh token.`
    public var description: String { "Could not \(operation): \(reason)." }

    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}

extension CredentialError {
    static func invalidInput(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidInput, reason: reason, recovery: "Correct it and try again.")
    }

    static func invalidResponse(_ operation: String, _ reason: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidResponse, reason: reason,
            recovery: "Check the server's address, and that it speaks OAuth 2.")
    }

    static func missing(_ kind: Token.Kind, _ operation: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .missingToken,
            reason: "there is no \(kind.rawValue.replacing("_", with: " "))", recovery: "Sign in again to get one.")
    }

    static func noEndpoint(_ operation: String, _ name: String) -> CredentialError {
        CredentialError(
            operation: operation, code: .noEndpoint, reason: "the server has no \(name) endpoint",
            recovery: "Ask whoever runs the server for it.")
    }

    static func invalidToken(_ operation: String, _ flaw: IDTokenFlaw) -> CredentialError {
        CredentialError(
            operation: operation, code: .invalidToken, reason: "the server's ID token \(flaw.reason)",
            recovery: "Nothing was stored. Sign in again; if it happens again, don't trust the server.", flaw: flaw)
    }

    static func refused(_ operation: String, _ error: ServerError, status: Int) -> CredentialError {
        let isOver = error.error == "invalid_grant"
        let words = error.description.map { " (\($0))" } ?? ""
        return CredentialError(
            operation: operation, code: isOver ? .invalidGrant : .oauthError,
            reason: "the server refused with ‘\(error.error)’\(words)",
            recovery: isOver ? "Sign in again." : "Ask whoever runs the server what this means, or sign in again.",
            serverError: error, httpStatus: status)
    }

    static func unexpectedStatus(_ operation: String, _ status: Int) -> CredentialError {
        CredentialError(
            operation: operation, code: .unexpectedStatus, reason: "the server answered with status \(status)",
            recovery: "Check the server's address, and try again later.", httpStatus: status)
    }
}
