public import Latchkey
public import LatchkeyOAuth

/// An error of an operation on credentials.
///
/// Errors of the hardware and the store are thrown as `KeystoreError`.
public typealias CredentialError = LatchkeyError<CredentialErrorCode>

/// The kinds of errors of operations on credentials.
public struct CredentialErrorCode: LatchkeyErrorCode {
    private enum Name: String {
        case notConfigured, notFound, duplicate, missingToken, signInAgain, cancelled, network, oauthError
        case unexpectedStatus, rateLimited, invalidResponse, invalidToken, transient, unsupported, refused
        case invalidInput
    }

    /// The server's response that caused an error.
    public typealias Details = ServerRefusal

    private let name: Name
    public let keystoreCode: KeystoreErrorCode

    /// ``Credential/storage`` was not set.
    public static let notConfigured = Self(name: .notConfigured, keystoreCode: .wrongState)
    /// No such credential is stored.
    public static let notFound = Self(name: .notFound, keystoreCode: .notFound)
    /// A credential with that id is stored already.
    public static let duplicate = Self(name: .duplicate, keystoreCode: .conflict)
    /// The credential has no token of the required kind.
    public static let missingToken = Self(name: .missingToken, keystoreCode: .notFound)
    /// The server no longer accepts the refresh token. The user has to sign in.
    public static let signInAgain = Self(name: .signInAgain, keystoreCode: .refused)
    /// The task was cancelled.
    public static let cancelled = Self(name: .cancelled, keystoreCode: .cancelled)
    /// The server can't be reached.
    public static let network = Self(name: .network, keystoreCode: .unavailable)
    /// The server refused the request with an OAuth error: `oauthError`.
    public static let oauthError = Self(name: .oauthError, keystoreCode: .refused)
    /// The server responded with the status `httpStatus` and no explanation.
    public static let unexpectedStatus = Self(name: .unexpectedStatus, keystoreCode: .refused)
    /// The server limits the rate of requests.
    public static let rateLimited = Self(name: .rateLimited, keystoreCode: .refused)
    /// The server's response does not follow the protocol.
    public static let invalidResponse = Self(name: .invalidResponse, keystoreCode: .refused)
    /// An ID token is not from the server, not for this program, not for this login, or not valid now.
    public static let invalidToken = Self(name: .invalidToken, keystoreCode: .refused)
    /// The check is not possible now. Nothing is lost; try again in 30 seconds.
    public static let transient = Self(name: .transient, keystoreCode: .transient)
    /// The server, or a credential with a policy, does not support the operation.
    public static let unsupported = Self(name: .unsupported, keystoreCode: .unsupported)
    /// The token must not be sent to this address, or belongs to another user.
    public static let refused = Self(name: .refused, keystoreCode: .refused)
    /// An argument is out of its bounds.
    public static let invalidInput = Self(name: .invalidInput, keystoreCode: .invalidInput)

    /// The name, for example `signInAgain`.
    public var description: String { name.rawValue }
}

extension CredentialError {
    /// The server's OAuth error, if any.
    public var oauthError: OAuth2Error? { details?.oauthError }
    /// The HTTP status of the server's response, if the response is the cause.
    public var httpStatus: Int? { details?.status }
}
