public import FoundationEssentials
public import Latchkey

/// Why something with a credential did not happen, and what a person can do about it.
///
/// What the hardware or the store says comes as `KeystoreError`, unchanged; this is everything else. Two errors are
/// equal when their ``code`` is equal.
public struct CredentialError: Error, Sendable {
    /// What was being done, as a verb phrase: `refresh the credential`.
    public let operation: String
    /// The one word for what went wrong.
    public let code: Code
    /// One clause: the cause.
    public let reason: String
    /// One sentence: what to do next.
    public let recovery: String
    /// The server's own error, where there is one.
    public let oauthError: OAuth2Error?
    /// The status of the server's answer, where it was an answer that went wrong.
    public let httpStatus: Int?
    /// What a lower layer said, where there is one.
    public let underlying: KeystoreError.Underlying?

    /// An error of the given code.
    public init(
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

    /// The vocabulary.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case notConfigured, notFound, duplicate, missingToken, signInAgain, cancelled, network, oauthError
            case unexpectedStatus, rateLimited, invalidResponse, invalidToken, transient, unsupported, refused
            case invalidInput
        }

        private let name: Name
        /// The same in the vocabulary of `KeystoreError`, from which a program's exit code follows.
        public let keystoreCode: KeystoreError.Code

        /// ``Credential/storage`` was not set.
        public static let notConfigured = Code(name: .notConfigured, keystoreCode: .wrongState)
        /// There is no such credential, or no longer.
        public static let notFound = Code(name: .notFound, keystoreCode: .notFound)
        /// A credential of that id is stored already.
        public static let duplicate = Code(name: .duplicate, keystoreCode: .conflict)
        /// The credential has no token of the kind that it takes.
        public static let missingToken = Code(name: .missingToken, keystoreCode: .notFound)
        /// The server takes the refresh token no more: the user has to sign in.
        public static let signInAgain = Code(name: .signInAgain, keystoreCode: .refused)
        /// The task was cancelled.
        public static let cancelled = Code(name: .cancelled, keystoreCode: .cancelled)
        /// The server can't be reached.
        public static let network = Code(name: .network, keystoreCode: .unavailable)
        /// The server said no, in the words of ``CredentialError/oauthError``.
        public static let oauthError = Code(name: .oauthError, keystoreCode: .refused)
        /// The server answered with ``CredentialError/httpStatus`` and no explanation.
        public static let unexpectedStatus = Code(name: .unexpectedStatus, keystoreCode: .refused)
        /// The server wants fewer requests.
        public static let rateLimited = Code(name: .rateLimited, keystoreCode: .refused)
        /// The server's answer is not what its protocol says.
        public static let invalidResponse = Code(name: .invalidResponse, keystoreCode: .refused)
        /// An ID token is not the server's, not for this program, not for this login, or not valid now.
        public static let invalidToken = Code(name: .invalidToken, keystoreCode: .refused)
        /// It can't be decided now. Nothing is lost; try again in half a minute.
        public static let transient = Code(name: .transient, keystoreCode: .transient)
        /// The server, or a gated credential, can't do it.
        public static let unsupported = Code(name: .unsupported, keystoreCode: .unsupported)
        /// It would send a token where it must not go.
        public static let refused = Code(name: .refused, keystoreCode: .refused)
        /// An argument is out of its bounds.
        public static let invalidInput = Code(name: .invalidInput, keystoreCode: .invalidInput)

        /// The word, for example `signInAgain`.
        public var description: String { name.rawValue }

        public static func == (left: Code, right: Code) -> Bool { left.name == right.name }
        public func hash(into hasher: inout Hasher) { hasher.combine(name) }
    }
}

extension CredentialError: Equatable {
    public static func == (left: CredentialError, right: CredentialError) -> Bool { left.code == right.code }
}

extension CredentialError: CustomStringConvertible, LocalizedError {
    /// One sentence for people: `Could not refresh the credential: the server can't be reached.`
    public var description: String { "Could not \(operation): \(reason)." }

    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}
