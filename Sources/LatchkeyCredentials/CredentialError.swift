public import FoundationEssentials
public import Latchkey
public import LatchkeyOAuth

/// An error of an operation on credentials: the cause and the next step.
///
/// Errors of the hardware and the store are thrown as `KeystoreError`. Two errors are equal if their ``code`` is equal.
public struct CredentialError: Error, Sendable {
    /// The operation, as a verb phrase: `refresh the credential`.
    public let operation: String
    /// The kind of error.
    public let code: Code
    /// The cause, as a clause.
    public let reason: String
    /// The next step, as one sentence.
    public let recovery: String
    /// The server's OAuth error, if any.
    public let oauthError: OAuth2Error?
    /// The HTTP status of the server's response, if the response is the cause.
    public let httpStatus: Int?
    /// The error of a lower layer, if any.
    public let underlying: KeystoreError.Underlying?

    package init(
        operation: String, code: Code, reason: String, recovery: String, oauthError: OAuth2Error? = nil,
        httpStatus: Int? = nil, underlying: KeystoreError.Underlying? = nil
    ) {
        self.operation = operation
        self.code = code
        self.reason = reason
        self.recovery = recovery
        self.oauthError = oauthError
        self.httpStatus = httpStatus
        self.underlying = underlying
    }

    /// The kinds of errors.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case notConfigured, notFound, duplicate, missingToken, signInAgain, cancelled, network, oauthError
            case unexpectedStatus, rateLimited, invalidResponse, invalidToken, transient, unsupported, refused
            case invalidInput
        }

        private let name: Name
        /// The corresponding code of `KeystoreError`, which determines a program's exit code.
        package let keystoreCode: KeystoreError.Code

        /// ``Credential/storage`` was not set.
        public static let notConfigured = Code(name: .notConfigured, keystoreCode: .wrongState)
        /// No such credential is stored.
        public static let notFound = Code(name: .notFound, keystoreCode: .notFound)
        /// A credential with that id is stored already.
        public static let duplicate = Code(name: .duplicate, keystoreCode: .conflict)
        /// The credential has no token of the required kind.
        public static let missingToken = Code(name: .missingToken, keystoreCode: .notFound)
        /// The server no longer accepts the refresh token. The user has to sign in.
        public static let signInAgain = Code(name: .signInAgain, keystoreCode: .refused)
        /// The task was cancelled.
        public static let cancelled = Code(name: .cancelled, keystoreCode: .cancelled)
        /// The server can't be reached.
        public static let network = Code(name: .network, keystoreCode: .unavailable)
        /// The server refused the request with ``CredentialError/oauthError``.
        public static let oauthError = Code(name: .oauthError, keystoreCode: .refused)
        /// The server responded with ``CredentialError/httpStatus`` and no explanation.
        public static let unexpectedStatus = Code(name: .unexpectedStatus, keystoreCode: .refused)
        /// The server limits the rate of requests.
        public static let rateLimited = Code(name: .rateLimited, keystoreCode: .refused)
        /// The server's response does not follow its protocol.
        public static let invalidResponse = Code(name: .invalidResponse, keystoreCode: .refused)
        /// An ID token is not from the server, not for this program, not for this login, or not valid now.
        public static let invalidToken = Code(name: .invalidToken, keystoreCode: .refused)
        /// The check is not possible now. Nothing is lost; try again in 30 seconds.
        public static let transient = Code(name: .transient, keystoreCode: .transient)
        /// The server, or a credential with a policy, does not support the operation.
        public static let unsupported = Code(name: .unsupported, keystoreCode: .unsupported)
        /// The token must not be sent to this address, or belongs to another user.
        public static let refused = Code(name: .refused, keystoreCode: .refused)
        /// An argument is out of its bounds.
        public static let invalidInput = Code(name: .invalidInput, keystoreCode: .invalidInput)

        /// The name, for example `signInAgain`.
        public var description: String { name.rawValue }
    }
}

extension CredentialError: Equatable {
    public static func == (left: CredentialError, right: CredentialError) -> Bool { left.code == right.code }
}

extension CredentialError: CustomStringConvertible, LocalizedError {
    /// One sentence: `Could not refresh the credential: the server can't be reached.`
    public var description: String { "Could not \(operation): \(reason)." }

    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}
