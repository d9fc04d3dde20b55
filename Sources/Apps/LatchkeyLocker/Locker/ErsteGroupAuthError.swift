public import Latchkey
public import LatchkeyOAuth

/// An error of a locker.
public typealias ErsteGroupAuthError = LatchkeyError<ErsteGroupAuthErrorCode>

/// The kinds of errors of a locker.
public struct ErsteGroupAuthErrorCode: LatchkeyErrorCode {
    /// The server's refusal.
    public typealias Details = ServerRefusal

    /// The name of the code, for example `wrongSecret`.
    public let description: String
    public let commonCode: CommonErrorCode

    private init(_ name: String, _ commonCode: CommonErrorCode) {
        description = name
        self.commonCode = commonCode
    }

    /// There is no open locker: call `initializeLocker` first.
    package static let notInitialized = Self("notInitialized", .wrongState)
    /// There is a locker with another configuration.
    public static let alreadyInitialized = Self("alreadyInitialized", .wrongState)
    /// A value of the configuration is invalid, or does not fit the server.
    public static let invalidConfiguration = Self("invalidConfiguration", .invalidInput)
    /// An argument is invalid.
    public static let invalidInput = Self("invalidInput", .invalidInput)
    /// Another call is running.
    public static let userInteractionInProgress = Self("userInteractionInProgress", .conflict)
    /// There is no prompt.
    public static let noActiveUI = Self("noActiveUI", .wrongState)
    /// The user declined, the prompt was dismissed, or it timed out.
    public static let userCancelled = Self("userCancelled", .cancelled)
    /// This device is not enrolled.
    public static let notEnrolled = Self("notEnrolled", .notFound)
    /// The call requires an active session.
    public static let notActive = Self("notActive", .wrongState)
    /// Easy access is not enabled.
    public static let easyAccessDisabled = Self("easyAccessDisabled", .notFound)
    /// Easy access is enabled already.
    public static let easyAccessEnabled = Self("easyAccessEnabled", .conflict)
    /// The secret is wrong, or the finger does not match.
    public static let wrongSecret = Self("wrongSecret", .wrongProof)
    /// The hardware does not accept a secret for now.
    public static let secretLockedOut = Self("secretLockedOut", .lockedOut)
    /// User verification is not possible, or not allowed without the network any more.
    public static let verificationUnavailable = Self("verificationUnavailable", .unavailable)
    /// The server requires a login.
    public static let strongAuthRequired = Self("strongAuthRequired", .refused)
    /// A different user logged in; this device is enrolled for another account.
    public static let userMismatch = Self("userMismatch", .refused)
    /// There is no network, and the call requires it.
    public static let offline = Self("offline", .unavailable)
    /// The server can't be reached.
    public static let network = Self("network", .unavailable)
    /// The server refused, or its answer does not follow the protocol.
    public static let server = Self("server", .refused)
    /// The server requires a proof that a key is in hardware, and this machine cannot give it, or
    /// the server does not accept it.
    public static let refused = Self("refused", .refused)
    /// The server no longer knows the enrolment; it was deleted here too.
    public static let enrolmentRevoked = Self("enrolmentRevoked", .notFound)
    /// The server no longer knows the secret's key; easy access was disabled here too.
    public static let easyAccessRevoked = Self("easyAccessRevoked", .notFound)
    /// The enrolment is deleted here. Later calls repeat its revocation at the server or in the
    /// hardware, which failed.
    public static let revocationPending = Self("revocationPending", .unavailable)
    /// The store belongs to another server or client.
    public static let environmentChanged = Self("environmentChanged", .conflict)
    /// A stored record is damaged. It was left unchanged.
    public static let storageCorrupted = Self("storageCorrupted", .damaged)
    /// The enrolment belongs to other hardware.
    public static let wrongDevice = Self("wrongDevice", .wrongDevice)
    /// Another program changed the enrolment at the same time.
    public static let conflict = Self("conflict", .conflict)
    /// The hardware does not support the operation, or failed.
    public static let hardware = Self("hardware", .unavailable)
}

extension ErsteGroupAuthError {
    /// The `error` of the server's response, if there is one.
    public var serverError: String? { details?.oauthError?.error }
    /// The HTTP status of the server's error, if there is one.
    public var httpStatus: Int? { details?.status }
}

/// An error of background access.
public typealias BackgroundAccessError = LatchkeyError<BackgroundAccessErrorCode>

/// The kinds of errors of background access.
public struct BackgroundAccessErrorCode: LatchkeyErrorCode {
    /// The cause.
    public typealias Details = ErsteGroupAuthError

    /// The name of the code, for example `notPermitted`.
    public let description: String
    /// The code of an error without a cause.
    public let commonCode: CommonErrorCode

    private init(_ name: String, _ commonCode: CommonErrorCode) {
        description = name
        self.commonCode = commonCode
    }

    /// This device is not enrolled.
    public static let notEnrolled = Self("notEnrolled", .notFound)
    /// The server does not allow it.
    public static let notPermitted = Self("notPermitted", .refused)
    /// The server can't be reached.
    public static let network = Self("network", .unavailable)
    /// The server's answer does not follow the protocol.
    public static let server = Self("server", .refused)
    /// The server no longer knows the enrolment; it was deleted here too.
    public static let enrolmentRevoked = Self("enrolmentRevoked", .notFound)
    /// The device's key or the store can't be used.
    public static let deviceKeyUnavailable = Self("deviceKeyUnavailable", .unavailable)
    /// The task was cancelled.
    public static let cancelled = Self("cancelled", .cancelled)

    /// The code of a cause.
    init(_ cause: ErsteGroupAuthError) {
        self =
            switch cause.code {
            case .notEnrolled: .notEnrolled
            case .network, .offline: .network
            case .enrolmentRevoked: .enrolmentRevoked
            case .userCancelled: .cancelled
            case .server:
                ["unauthorized_client", "invalid_scope", "unsupported_grant_type"].contains(
                    cause.serverError)
                    ? .notPermitted : .server
            case .strongAuthRequired, .easyAccessRevoked, .userMismatch: .notPermitted
            default: .deviceKeyUnavailable
            }
    }
}

extension BackgroundAccessError {
    /// The underlying error, if there is one.
    public var cause: ErsteGroupAuthError? { details }

    init(_ cause: ErsteGroupAuthError) {
        self.init(
            operation: cause.operation, code: BackgroundAccessErrorCode(cause),
            reason: cause.reason,
            recovery: cause.recoveryAction, underlying: cause.underlying, details: cause)
    }
}
