/// An error of records, files, requests, settings and everything else that has no codes of its own.
public typealias CommonError = LatchkeyError<CommonErrorCode>

/// An error of keys, secrets, and proofs of the user. It has the same codes as ``CommonError``, so
/// an operation with a key and its record throws one type.
public typealias KeystoreError = CommonError

/// The kinds of errors that all parts of the package share. They determine a program's exit status.
public struct CommonErrorCode: LatchkeyErrorCode {
    /// The name, for example `lockedOut`.
    public let description: String

    private init(_ name: String) {
        description = name
    }

    /// The key, record or secret does not exist.
    public static let notFound = Self("notFound")
    /// The user declined, or did not answer in time.
    public static let cancelled = Self("cancelled")
    /// The PIN is wrong, or the fingerprint does not match.
    public static let wrongProof = Self("wrongProof")
    /// The hardware refuses every PIN for now.
    public static let lockedOut = Self("lockedOut")
    /// The hardware, reader, broker or network cannot be reached.
    public static let unavailable = Self("unavailable")
    /// No fingerprint is enrolled.
    public static let notEnrolled = Self("notEnrolled")
    /// The policy requires a PIN, and none is set.
    public static let passcodeNotSet = Self("passcodeNotSet")
    /// The key was revoked, or the enrolled fingerprints that it depends on have changed.
    public static let invalidated = Self("invalidated")
    /// The key belongs to other hardware, or the hardware was cleared.
    public static let wrongDevice = Self("wrongDevice")
    /// Stored bytes were changed by something other than Latchkey. Latchkey has not overwritten
    /// them.
    public static let damaged = Self("damaged")
    /// A retry may succeed.
    public static let transient = Self("transient")
    /// Another caller or program changed the value first, or it exists already.
    public static let conflict = Self("conflict")
    /// This hardware or version does not support the operation.
    public static let unsupported = Self("unsupported")
    /// An argument is out of its bounds.
    public static let invalidInput = Self("invalidInput")
    /// The call does not fit the present state.
    public static let wrongState = Self("wrongState")
    /// A server, or a rule of this machine, refused the operation.
    public static let refused = Self("refused")
    /// Any other error.
    public static let failed = Self("failed")

    public var commonCode: CommonErrorCode { self }
}

extension CommonError {
    package static func damaged(_ reason: String, underlying: UnderlyingError? = nil)
        -> CommonError
    {
        CommonError(
            code: .damaged, reason: reason,
            recovery:
                "Nothing was changed. Restore the store from a backup, or delete the damaged entry.",
            underlying: underlying)
    }

    package static func invalidInput(_ reason: String) -> CommonError {
        CommonError(
            code: .invalidInput, reason: reason, recovery: .correctValue)
    }

    package static func cancelled(_ reason: String = "the operation was cancelled") -> CommonError {
        CommonError(code: .cancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    package static func unsupported(_ reason: String, recovery: Recovery) -> CommonError {
        CommonError(code: .unsupported, reason: reason, recovery: recovery)
    }

    package static func notFound(_ reason: String, recovery: Recovery) -> CommonError {
        CommonError(code: .notFound, reason: reason, recovery: recovery)
    }

    package static func conflict(_ reason: String, recovery: Recovery = "Try again.") -> CommonError
    {
        CommonError(code: .conflict, reason: reason, recovery: recovery)
    }

    /// This lockout error, with the reason why a stronger proof did not lift the lockout, and that
    /// failure's next step.
    package func remaining(after failure: CommonError) -> CommonError {
        CommonError(
            operation: operation, code: code, reason: "\(reason), and \(failure.reason)",
            recovery: failure.recoveryAction,
            attemptsLeft: attemptsLeft, lockedOutUntil: lockedOutUntil,
            underlying: failure.underlying)
    }
}
