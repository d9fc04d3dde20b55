public import FoundationEssentials
public import Latchkey
public import LatchkeyOAuth

/// An error of a login operation: the cause and the next step.
///
/// Errors of the hardware and the store are thrown as `KeystoreError`. Two errors are equal if their ``code`` is equal. The
/// errors of the iOS SDK correspond to:
///
/// | iOS | here |
/// |---|---|
/// | `cancel` | `cancelled`; at the PIN prompt `KeystoreError` `cancelled` |
/// | `unexpectedHttpStatusCode`, `serverError`, `oauthError` | `unexpectedStatus`, `serverError`, `oauthError` |
/// | `biometricPrivateKeyNotFound` | `notEnabled`; `identityNotFound` when the server has lost it |
/// | `biometricNotSupportedOrPermissionDenied` | `KeystoreError` `unsupported` or `unavailable` |
/// | `biometricNoPasscode`, `biometricNoEnrollment` | `KeystoreError` `passcodeNotSet`, `notEnrolled` |
/// | `biometricLockout` | `KeystoreError` `lockedOut`, with the time |
/// | `invalidJWT`, `unauthenticatedUser` | `invalidToken`, `unauthenticated` |
public struct LoginError: Error, Sendable {
    /// The operation, as a verb phrase: `enable biometric login`.
    public let operation: String
    /// The kind of error.
    public let code: Code
    /// The cause, as a clause.
    public let reason: String
    /// The next step, as one sentence.
    public let recovery: String
    /// The server's OAuth error, if any.
    public let oauthError: OAuthError?
    /// The error of the server's JSON API, if any.
    public let serverError: ServerError?
    /// The HTTP status of the server's response, if the response is the cause.
    public let httpStatus: Int?
    /// The error of a lower layer, if any.
    public let underlying: KeystoreError.Underlying?

    package init(
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

    /// The kinds of errors.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case cancelled, timedOut, linkReused, notEnabled, identityNotFound, unauthenticated, userMismatch
            case clockSkew, conflict, network, oauthError, serverError, unexpectedStatus, rateLimited
            case invalidResponse, invalidToken, invalidInput
        }

        private let name: Name
        /// The corresponding code of `KeystoreError`, which determines a program's exit code.
        package let keystoreCode: KeystoreError.Code

        /// The user cancelled the login in the browser.
        public static let cancelled = Code(name: .cancelled, keystoreCode: .cancelled)
        /// The login in the browser was not finished in time.
        public static let timedOut = Code(name: .timedOut, keystoreCode: .cancelled)
        /// The link to the login page was opened more than once, perhaps by another user.
        public static let linkReused = Code(name: .linkReused, keystoreCode: .refused)
        /// Biometric login is not enabled in this container.
        public static let notEnabled = Code(name: .notEnabled, keystoreCode: .notFound)
        /// The server doesn't know the key, for example because it was removed on the settings page.
        public static let identityNotFound = Code(name: .identityNotFound, keystoreCode: .notFound)
        /// The operation requires a session.
        public static let unauthenticated = Code(name: .unauthenticated, keystoreCode: .notFound)
        /// A different user than the owner of the container's key logged in.
        public static let userMismatch = Code(name: .userMismatch, keystoreCode: .refused)
        /// This machine's clock and the server's are too far apart.
        public static let clockSkew = Code(name: .clockSkew, keystoreCode: .refused)
        /// Biometric login is enabled already, another program changed it at the same time, or the login belongs to another
        /// server.
        public static let conflict = Code(name: .conflict, keystoreCode: .conflict)
        /// The server can't be reached.
        public static let network = Code(name: .network, keystoreCode: .unavailable)
        /// The server refused the request with ``LoginError/oauthError``.
        public static let oauthError = Code(name: .oauthError, keystoreCode: .refused)
        /// The server refused the request with ``LoginError/serverError``.
        public static let serverError = Code(name: .serverError, keystoreCode: .refused)
        /// The server responded with ``LoginError/httpStatus`` and no explanation.
        public static let unexpectedStatus = Code(name: .unexpectedStatus, keystoreCode: .refused)
        /// The server limits the rate of requests.
        public static let rateLimited = Code(name: .rateLimited, keystoreCode: .refused)
        /// The server's response does not follow its protocol.
        public static let invalidResponse = Code(name: .invalidResponse, keystoreCode: .refused)
        /// An ID token is not from the server, not for this program, not for this login, or too old.
        public static let invalidToken = Code(name: .invalidToken, keystoreCode: .refused)
        /// An argument is out of its bounds.
        public static let invalidInput = Code(name: .invalidInput, keystoreCode: .invalidInput)

        /// The name, for example `notEnabled`.
        public var description: String { name.rawValue }
    }
}

extension LoginError: Equatable {
    public static func == (left: LoginError, right: LoginError) -> Bool { left.code == right.code }
}

extension LoginError: CustomStringConvertible, LocalizedError {
    /// One sentence: `Could not log in: the server can't be reached.`
    public var description: String { "Could not \(operation): \(reason)." }

    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}

/// The server's OAuth error, under its name in the iOS SDK.
public typealias OAuthError = OAuth2Error

/// An error of the server's JSON API. Its texts fit on one line, like those of an ``OAuthError``.
public struct ServerError: Hashable, Sendable, Codable {
    /// The kind, which corresponds to the HTTP status, for example `NotFound`.
    public let name: String
    /// The exact cause, for example `IdentityNotFound`.
    public let reason: String
    /// The server's message.
    public let message: String

    package init(name: String, reason: String, message: String) {
        self.name = String(oneLine: name, limit: OAuth2Error.maximumCodeLength)
        self.reason = String(oneLine: reason, limit: OAuth2Error.maximumCodeLength)
        self.message = String(oneLine: message, limit: OAuth2Error.maximumTextLength)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try container.decode(String.self, forKey: .name),
            reason: try container.decode(String.self, forKey: .reason),
            message: try container.decode(String.self, forKey: .message))
    }

    private enum CodingKeys: String, CodingKey {
        case name, reason, message
    }

    /// The response body: `{"error": {…}}`.
    struct Envelope: Decodable {
        let error: ServerError
    }
}
