public import Latchkey
public import LatchkeyOAuth

/// An error of a locker.
public typealias ErsteGroupAuthError = LatchkeyError<ErsteGroupAuthErrorCode>

/// The kinds of errors of a locker.
public enum ErsteGroupAuthErrorCode: String, LatchkeyErrorCode, CaseIterable {
    /// The server's refusal.
    public typealias Details = ServerRefusal

    /// There is no open locker: call `initializeLocker` first.
    case notInitialized
    /// There is a locker with another configuration.
    case alreadyInitialized
    /// A value of the configuration is invalid, or does not fit the server.
    case invalidConfiguration
    /// An argument is invalid.
    case invalidInput
    /// Another call is running.
    case userInteractionInProgress
    /// There is no prompt.
    case noActiveUI
    /// The user declined, the prompt was dismissed, or it timed out.
    case userCancelled
    /// This device is not enrolled.
    case notEnrolled
    /// The call requires an active session.
    case notActive
    /// Easy access is not enabled.
    case easyAccessDisabled
    /// Easy access is enabled already.
    case easyAccessEnabled
    /// The secret is wrong, or the finger does not match.
    case wrongSecret
    /// The hardware does not accept a secret for now.
    case secretLockedOut
    /// User verification is not possible, or not allowed without the network any more.
    case verificationUnavailable
    /// The server requires a login.
    case strongAuthRequired
    /// A different user logged in; this device is enrolled for another account.
    case userMismatch
    /// There is no network, and the call requires it.
    case offline
    /// The server can't be reached.
    case network
    /// The server refused, or its answer does not follow the protocol.
    case server
    /// The server requires a proof that a key is in hardware, and this machine cannot give it, or
    /// the server does not accept it.
    case refused
    /// The server no longer knows the enrolment; it was deleted here too.
    case enrolmentRevoked
    /// The server no longer knows the secret's key; easy access was disabled here too.
    case easyAccessRevoked
    /// The enrolment is deleted here. Later calls repeat its revocation at the server or in the
    /// hardware, which failed.
    case revocationPending
    /// The store belongs to another server or client.
    case environmentChanged
    /// A stored record is damaged. It was left unchanged.
    case storageCorrupted
    /// The enrolment belongs to other hardware.
    case wrongDevice
    /// Another program changed the enrolment at the same time.
    case conflict
    /// The hardware does not support the operation, or failed.
    case hardware

    public var commonCode: CommonErrorCode {
        switch self {
        case .notInitialized, .alreadyInitialized, .noActiveUI, .notActive: .wrongState
        case .invalidConfiguration, .invalidInput: .invalidInput
        case .userInteractionInProgress, .easyAccessEnabled, .environmentChanged,
            .conflict:
            .conflict
        case .userCancelled: .cancelled
        case .notEnrolled, .easyAccessDisabled, .enrolmentRevoked, .easyAccessRevoked: .notFound
        case .wrongSecret: .wrongProof
        case .secretLockedOut: .lockedOut
        case .verificationUnavailable, .offline, .network, .revocationPending,
            .hardware:
            .unavailable
        case .strongAuthRequired, .userMismatch, .server, .refused: .refused
        case .storageCorrupted: .damaged
        case .wrongDevice: .wrongDevice
        }
    }
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
public enum BackgroundAccessErrorCode: String, LatchkeyErrorCode {
    /// The cause.
    public typealias Details = ErsteGroupAuthError

    /// This device is not enrolled.
    case notEnrolled
    /// The server does not allow it.
    case notPermitted
    /// The server can't be reached.
    case network
    /// The server's answer does not follow the protocol.
    case server
    /// The server no longer knows the enrolment; it was deleted here too.
    case enrolmentRevoked
    /// The device's key or the store can't be used.
    case deviceKeyUnavailable
    /// An argument is invalid, or the configuration does not fit the server.
    case invalidInput
    /// Another program or call changed the enrolment at the same time, or the store belongs to
    /// another server or client.
    case conflict
    /// The call does not fit the present state, for example because the locker is not open.
    case wrongState
    /// The task was cancelled.
    case cancelled

    /// The code of a cause.
    package init(_ cause: ErsteGroupAuthError) {
        self =
            switch cause.code {
            case .notEnrolled, .revocationPending: .notEnrolled
            case .network, .offline: .network
            case .enrolmentRevoked: .enrolmentRevoked
            case .userCancelled: .cancelled
            case .server:
                ["unauthorized_client", "invalid_scope", "unsupported_grant_type"].contains(
                    cause.serverError)
                    ? .notPermitted : .server
            case .strongAuthRequired, .easyAccessRevoked, .userMismatch, .refused: .notPermitted
            case .invalidInput, .invalidConfiguration: .invalidInput
            case .conflict, .environmentChanged, .userInteractionInProgress: .conflict
            case .notInitialized, .alreadyInitialized, .noActiveUI, .notActive,
                .easyAccessDisabled, .easyAccessEnabled:
                .wrongState
            case .wrongSecret, .secretLockedOut, .verificationUnavailable, .storageCorrupted,
                .wrongDevice, .hardware:
                .deviceKeyUnavailable
            }
    }

    public var commonCode: CommonErrorCode {
        switch self {
        case .notEnrolled, .enrolmentRevoked: .notFound
        case .notPermitted, .server: .refused
        case .network, .deviceKeyUnavailable: .unavailable
        case .invalidInput: .invalidInput
        case .conflict: .conflict
        case .wrongState: .wrongState
        case .cancelled: .cancelled
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
