public import Latchkey
public import LatchkeyOAuth

/// An error of an operation on credentials.
///
/// Errors of the hardware and the store are thrown as `KeystoreError`.
public typealias CredentialError = LatchkeyError<CredentialErrorCode>

/// The kinds of errors of operations on credentials.
public enum CredentialErrorCode: String, LatchkeyErrorCode {
    /// The server's response that caused an error.
    public typealias Details = ServerRefusal

    /// ``Credential/storage`` was not set.
    case notConfigured
    /// No such credential is stored.
    case notFound
    /// A credential with that id is stored already.
    case duplicate
    /// The credential has no token of the required kind.
    case missingToken
    /// The server no longer accepts the refresh token. The user has to sign in.
    case signInAgain
    /// The task was cancelled.
    case cancelled
    /// The server can't be reached.
    case network
    /// The server refused the request with an OAuth error: `oauthError`.
    case oauthError
    /// The server responded with the status `httpStatus` and no explanation.
    case unexpectedStatus
    /// The server limits the rate of requests.
    case rateLimited
    /// The server's response does not follow the protocol.
    case invalidResponse
    /// An ID token is not from the server, not for this program, not for this login, or not valid
    /// now.
    case invalidToken
    /// The server, or a credential with a policy, does not support the operation, or the server
    /// signs with an algorithm that is not supported.
    case unsupported
    /// The token must not be sent to this address, or belongs to another user.
    case refused
    /// An argument is out of its bounds.
    case invalidInput

    public var commonCode: CommonErrorCode {
        switch self {
        case .notConfigured: .wrongState
        case .notFound, .missingToken: .notFound
        case .duplicate: .conflict
        case .signInAgain, .oauthError, .unexpectedStatus, .rateLimited, .invalidResponse,
            .invalidToken, .refused:
            .refused
        case .cancelled: .cancelled
        case .network: .unavailable
        case .unsupported: .unsupported
        case .invalidInput: .invalidInput
        }
    }
}

extension CredentialError {
    /// The server's OAuth error, if any.
    public var oauthError: OAuth2Error? { details?.oauthError }
    /// The HTTP status of the server's response, if the response is the cause.
    public var httpStatus: Int? { details?.status }
}
