public import Latchkey
public import LatchkeyOAuth

/// An error of an operation on credentials.
///
/// Errors of the hardware and the store are thrown as `KeystoreError`.
public typealias CredentialError = LatchkeyError<CredentialErrorCode>

/// The kinds of errors of operations on credentials.
public struct CredentialErrorCode: LatchkeyErrorCode {
    /// The server's response that caused an error.
    public typealias Details = ServerRefusal

    /// The name, for example `signInAgain`.
    public let description: String
    public let commonCode: CommonErrorCode

    private init(_ name: String, _ commonCode: CommonErrorCode) {
        description = name
        self.commonCode = commonCode
    }

    /// ``Credential/storage`` was not set.
    public static let notConfigured = Self("notConfigured", .wrongState)
    /// No such credential is stored.
    public static let notFound = Self("notFound", .notFound)
    /// A credential with that id is stored already.
    public static let duplicate = Self("duplicate", .conflict)
    /// The credential has no token of the required kind.
    public static let missingToken = Self("missingToken", .notFound)
    /// The server no longer accepts the refresh token. The user has to sign in.
    public static let signInAgain = Self("signInAgain", .refused)
    /// The task was cancelled.
    public static let cancelled = Self("cancelled", .cancelled)
    /// The server can't be reached.
    public static let network = Self("network", .unavailable)
    /// The server refused the request with an OAuth error: `oauthError`.
    public static let oauthError = Self("oauthError", .refused)
    /// The server responded with the status `httpStatus` and no explanation.
    public static let unexpectedStatus = Self("unexpectedStatus", .refused)
    /// The server limits the rate of requests.
    public static let rateLimited = Self("rateLimited", .refused)
    /// The server's response does not follow the protocol.
    public static let invalidResponse = Self("invalidResponse", .refused)
    /// An ID token is not from the server, not for this program, not for this login, or not valid
    /// now.
    public static let invalidToken = Self("invalidToken", .refused)
    /// The server, or a credential with a policy, does not support the operation, or the server
    /// signs with an algorithm that is not supported.
    public static let unsupported = Self("unsupported", .unsupported)
    /// The token must not be sent to this address, or belongs to another user.
    public static let refused = Self("refused", .refused)
    /// An argument is out of its bounds.
    public static let invalidInput = Self("invalidInput", .invalidInput)
}

extension CredentialError {
    /// The server's OAuth error, if any.
    public var oauthError: OAuth2Error? { details?.oauthError }
    /// The HTTP status of the server's response, if the response is the cause.
    public var httpStatus: Int? { details?.status }
}
