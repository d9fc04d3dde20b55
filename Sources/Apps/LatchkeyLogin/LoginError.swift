public import Latchkey
public import LatchkeyOAuth

/// An error of a login operation.
///
/// Errors of the hardware and the store are thrown as `KeystoreError`. The errors of the iOS SDK
/// correspond to:
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
public typealias LoginError = LatchkeyError<LoginErrorCode>

/// The kinds of errors of login operations.
public struct LoginErrorCode: LatchkeyErrorCode {
    /// The server's response that caused an error.
    public typealias Details = ServerRefusal

    /// The name, for example `notEnabled`.
    public let description: String
    public let commonCode: CommonErrorCode

    private init(_ name: String, _ commonCode: CommonErrorCode) {
        description = name
        self.commonCode = commonCode
    }

    /// The user cancelled the login in the browser.
    public static let cancelled = Self("cancelled", .cancelled)
    /// The login in the browser was not finished in time.
    public static let timedOut = Self("timedOut", .cancelled)
    /// The link to the login page was opened more than once, perhaps by another user.
    public static let linkReused = Self("linkReused", .refused)
    /// Biometric login is not enabled in this container.
    public static let notEnabled = Self("notEnabled", .notFound)
    /// The server doesn't know the key, for example because it was removed on the settings page.
    public static let identityNotFound = Self("identityNotFound", .notFound)
    /// The operation requires a session.
    public static let unauthenticated = Self("unauthenticated", .notFound)
    /// A different user than the owner of the container's key logged in.
    public static let userMismatch = Self("userMismatch", .refused)
    /// This machine's clock and the server's are too far apart.
    public static let clockSkew = Self("clockSkew", .refused)
    /// Biometric login is enabled already, another program changed it at the same time, or the
    /// login belongs to another server.
    public static let conflict = Self("conflict", .conflict)
    /// The server can't be reached.
    public static let network = Self("network", .unavailable)
    /// The server refused the request with an OAuth error: `oauthError`.
    public static let oauthError = Self("oauthError", .refused)
    /// The server refused the request with an error of its JSON API: `serverError`.
    public static let serverError = Self("serverError", .refused)
    /// The server responded with the status `httpStatus` and no explanation.
    public static let unexpectedStatus = Self("unexpectedStatus", .refused)
    /// The server requires a proof that the key is in hardware, and this machine cannot give it, or
    /// the server does not accept it.
    public static let refused = Self("refused", .refused)
    /// The server limits the rate of requests.
    public static let rateLimited = Self("rateLimited", .refused)
    /// The server's response does not follow the protocol.
    public static let invalidResponse = Self("invalidResponse", .refused)
    /// An ID token is not from the server, not for this program, not for this login, or too old.
    public static let invalidToken = Self("invalidToken", .refused)
    /// The server signs ID tokens with an algorithm that is not supported.
    public static let unsupported = Self("unsupported", .unsupported)
    /// An argument is out of its bounds.
    public static let invalidInput = Self("invalidInput", .invalidInput)
}

extension LoginError {
    /// The server's OAuth error, if any.
    public var oauthError: OAuthError? { details?.oauthError }
    /// The error of the server's JSON API, if any.
    public var serverError: ServerError? { details?.serverError }
    /// The HTTP status of the server's response, if the response is the cause.
    public var httpStatus: Int? { details?.status }

    /// Whether this is the server's error for a wrong clock, a used challenge or a removed key.
    var isInvalidCredentials: Bool {
        oauthError?.error == "invalid_grant" && oauthError?.description == "InvalidCredentials"
    }

    /// Whether the server has ended the session.
    var isInvalidGrant: Bool {
        (oauthError?.error == "invalid_grant" && details?.attestationRefusal == nil)
            || serverError?.reason == "InvalidGrant"
    }

    /// Whether the server certainly did not carry out the request. Without a response, or with a
    /// 5xx status, it may have.
    var isDefiniteRefusal: Bool {
        httpStatus.map { (400..<500).contains($0) } ?? false
    }
}

/// The server's OAuth error, under its name in the iOS SDK.
public typealias OAuthError = OAuth2Error
