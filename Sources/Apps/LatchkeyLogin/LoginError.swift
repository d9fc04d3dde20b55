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
/// | `biometricPrivateKeyNotFound` | `notEnabled`; `identityNotFound` when the server has lost it; `KeystoreError` `invalidated` when the hardware has |
/// | `biometricNotSupportedOrPermissionDenied` | `KeystoreError` `unsupported` or `unavailable` |
/// | `biometricNoPasscode`, `biometricNoEnrollment` | `KeystoreError` `passcodeNotSet`, `notEnrolled` |
/// | `biometricLockout` | `KeystoreError` `lockedOut`, with the time |
/// | `invalidJWT`, `unauthenticatedUser` | `invalidToken`, `unauthenticated` |
/// | `cannotReauthenticate` | the same |
public typealias LoginError = LatchkeyError<LoginErrorCode>

/// The kinds of errors of login operations.
public enum LoginErrorCode: String, LatchkeyErrorCode {
    /// The server's response that caused an error.
    public typealias Details = ServerRefusal

    /// The user cancelled the login in the browser.
    case cancelled
    /// The login in the browser was not finished in time. Also if the server's page showed an error:
    /// it does not report a wrong client ID or redirect address to the program.
    case timedOut
    /// The link to the login page was opened more than once, perhaps by another user.
    case linkReused
    /// Biometric login is not enabled in this container.
    case notEnabled
    /// The server doesn't know the key, for example because it was removed on the settings page.
    case identityNotFound
    /// The operation requires a session.
    case unauthenticated
    /// A different user than the owner of the container's key logged in, or a different user than
    /// the session's was authenticated.
    case userMismatch
    /// The server cannot authenticate the session's user again.
    case cannotReauthenticate
    /// This machine's clock and the server's are too far apart.
    case clockSkew
    /// Biometric login is enabled already, another program changed it at the same time, or the
    /// login belongs to another server.
    case conflict
    /// The server can't be reached.
    case network
    /// The server refused the request with an OAuth error: `oauthError`.
    case oauthError
    /// The server refused the request with an error of its JSON API: `serverError`.
    case serverError
    /// The server responded with the status `httpStatus` and no explanation.
    case unexpectedStatus
    /// The server requires a proof that the key is in hardware, and this machine cannot give it, or
    /// the server does not accept it.
    case refused
    /// The server limits the rate of requests.
    case rateLimited
    /// The server's response does not follow the protocol.
    case invalidResponse
    /// An ID token is not from the server, not for this program, not for this login, or too old.
    case invalidToken
    /// The server signs ID tokens with an algorithm that is not supported, or does not have the
    /// function or this kind of login.
    case unsupported
    /// An argument is out of its bounds.
    case invalidInput

    public var commonCode: CommonErrorCode {
        switch self {
        case .cancelled, .timedOut: .cancelled
        case .linkReused, .userMismatch, .clockSkew, .oauthError, .serverError, .unexpectedStatus,
            .refused, .rateLimited, .invalidResponse, .invalidToken:
            .refused
        case .notEnabled, .identityNotFound, .unauthenticated: .notFound
        case .conflict: .conflict
        case .network: .unavailable
        case .unsupported, .cannotReauthenticate: .unsupported
        case .invalidInput: .invalidInput
        }
    }
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
        // A server that fails has not decided.
        details?.isServerFailure != true
            && ((oauthError?.error == "invalid_grant" && details?.attestationRefusal == nil)
                || serverError?.reason == "InvalidGrant")
    }

    /// Whether the server certainly did not carry out the request. Without a response, or with a
    /// 5xx status, it may have.
    var isDefiniteRefusal: Bool {
        httpStatus.map { (400..<500).contains($0) } ?? false
    }
}

/// The server's OAuth error, under its name in the iOS SDK.
public typealias OAuthError = OAuth2Error
