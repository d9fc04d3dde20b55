public import FoundationEssentials
public import Latchkey

/// Why something with a login did not happen, and what a person can do about it.
///
/// What the hardware or the store says comes as `KeystoreError`, unchanged; this is everything else. Two errors are
/// equal when their ``code`` is equal. Those who know the iOS SDK find its errors again as:
///
/// | iOS | here |
/// |---|---|
/// | `cancel` | `cancelled`; in front of the PIN prompt `KeystoreError` `cancelled` |
/// | `unexpectedHttpStatusCode`, `serverError`, `oauthError` | `unexpectedStatus`, `serverError`, `oauthError` |
/// | `biometricPrivateKeyNotFound` | `notEnabled`; `identityNotFound` when the server has lost it |
/// | `biometricNotSupportedOrPermissionDenied` | `KeystoreError` `unsupported` or `unavailable` |
/// | `biometricNoPasscode`, `biometricNoEnrollment` | `KeystoreError` `passcodeNotSet`, `notEnrolled` |
/// | `biometricLockout` | `KeystoreError` `lockedOut`, with the time |
/// | `invalidJWT`, `unauthenticatedUser` | `invalidToken`, `unauthenticated` |
public struct LoginError: Error, Sendable {
    /// What was being done, as a verb phrase: `enable biometric login`.
    public let operation: String
    /// The one word for what went wrong.
    public let code: Code
    /// One clause: the cause.
    public let reason: String
    /// One sentence: what to do next.
    public let recovery: String
    /// The server's OAuth error, where there is one.
    public let oauthError: OAuthError?
    /// The error of the server's JSON API, where there is one.
    public let serverError: ServerError?
    /// The status of the server's answer, where it was an answer that went wrong.
    public let httpStatus: Int?
    /// What a lower layer said, where there is one.
    public let underlying: KeystoreError.Underlying?

    /// An error of the given code.
    public init(
        operation: String, code: Code, reason: String, recovery: String, oauthError: OAuthError? = nil,
        serverError: ServerError? = nil, httpStatus: Int? = nil, underlying: KeystoreError.Underlying? = nil
    ) {
        self.operation = operation
        self.code = code
        self.reason = reason
        self.recovery = recovery
        self.oauthError = oauthError
        self.serverError = serverError
        self.httpStatus = httpStatus
        self.underlying = underlying
    }

    /// The vocabulary.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case cancelled, timedOut, linkReused, notEnabled, identityNotFound, unauthenticated, userMismatch
            case clockSkew, conflict, network, oauthError, serverError, unexpectedStatus, rateLimited
            case invalidResponse, invalidToken, invalidInput
        }

        private let name: Name
        /// The same in the vocabulary of `KeystoreError`, from which a program's exit code follows.
        public let keystoreCode: KeystoreError.Code

        /// The person cancelled the login in the browser.
        public static let cancelled = Code(name: .cancelled, keystoreCode: .cancelled)
        /// Nobody finished the login in the browser in time.
        public static let timedOut = Code(name: .timedOut, keystoreCode: .cancelled)
        /// The link to the login page was followed more than once, perhaps by somebody else.
        public static let linkReused = Code(name: .linkReused, keystoreCode: .refused)
        /// Biometric login is not enabled in this container.
        public static let notEnabled = Code(name: .notEnabled, keystoreCode: .notFound)
        /// The server doesn't know the key, for example because it was removed on the settings page.
        public static let identityNotFound = Code(name: .identityNotFound, keystoreCode: .notFound)
        /// It needs a session and there is none.
        public static let unauthenticated = Code(name: .unauthenticated, keystoreCode: .notFound)
        /// Somebody else logged in than the user to whom the container's key belongs.
        public static let userMismatch = Code(name: .userMismatch, keystoreCode: .refused)
        /// This machine's clock and the server's are too far apart.
        public static let clockSkew = Code(name: .clockSkew, keystoreCode: .refused)
        /// It is there already, another program changed it at the same time, or it belongs to another server.
        public static let conflict = Code(name: .conflict, keystoreCode: .conflict)
        /// The server can't be reached.
        public static let network = Code(name: .network, keystoreCode: .unavailable)
        /// The server said no, in the words of ``LoginError/oauthError``.
        public static let oauthError = Code(name: .oauthError, keystoreCode: .refused)
        /// The server said no, in the words of ``LoginError/serverError``.
        public static let serverError = Code(name: .serverError, keystoreCode: .refused)
        /// The server answered with ``LoginError/httpStatus`` and no explanation.
        public static let unexpectedStatus = Code(name: .unexpectedStatus, keystoreCode: .refused)
        /// The server wants fewer requests.
        public static let rateLimited = Code(name: .rateLimited, keystoreCode: .refused)
        /// The server's answer is not what its protocol says.
        public static let invalidResponse = Code(name: .invalidResponse, keystoreCode: .refused)
        /// An ID token is not the server's, not for this program, not for this login, or too old.
        public static let invalidToken = Code(name: .invalidToken, keystoreCode: .refused)
        /// An argument is out of its bounds.
        public static let invalidInput = Code(name: .invalidInput, keystoreCode: .invalidInput)

        /// The word, for example `notEnabled`.
        public var description: String { name.rawValue }

        public static func == (left: Code, right: Code) -> Bool { left.name == right.name }
        public func hash(into hasher: inout Hasher) { hasher.combine(name) }
    }
}

extension LoginError: Equatable {
    public static func == (left: LoginError, right: LoginError) -> Bool { left.code == right.code }
}

extension LoginError: CustomStringConvertible, LocalizedError {
    /// One sentence for people: `Could not log in: the server can't be reached.`
    public var description: String { "Could not \(operation): \(reason)." }

    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}
