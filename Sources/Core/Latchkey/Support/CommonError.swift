/// An error of records, files, requests, settings and everything else that has no codes of its own.
public typealias CommonError = LatchkeyError<CommonErrorCode>

/// An error of keys, secrets, and proofs of the user. It has the same codes as ``CommonError``, so
/// an operation with a key and its record throws one type.
public typealias KeystoreError = CommonError

/// The kinds of errors that all parts of the package share. They determine a program's exit status.
/// Later versions can add codes, so a `switch` in an app needs a `default`.
public enum CommonErrorCode: String, LatchkeyErrorCode, CaseIterable {
    /// The key, record or secret does not exist.
    case notFound
    /// The user declined, or did not answer in time.
    case cancelled
    /// The PIN is wrong, or the fingerprint does not match.
    case wrongProof
    /// The hardware refuses every PIN for now.
    case lockedOut
    /// The hardware, reader, broker or network cannot be reached.
    case unavailable
    /// No fingerprint is enrolled.
    case notEnrolled
    /// The policy requires a PIN, and none is set.
    case passcodeNotSet
    /// The key was revoked, or the enrolled fingerprints that it depends on have changed.
    case invalidated
    /// The key belongs to other hardware, or the hardware was cleared.
    case wrongDevice
    /// Stored bytes were changed by something other than Latchkey. Latchkey has not overwritten
    /// them.
    case damaged
    /// A retry may succeed.
    case transient
    /// Another caller or program changed the value first, or it exists already.
    case conflict
    /// This hardware or version does not support the operation.
    case unsupported
    /// An argument is out of its bounds, or names another type than that of the stored value.
    case invalidInput
    /// The call does not fit the present state.
    case wrongState
    /// A server, or a rule of this machine, refused the operation.
    case refused
    /// Any other error.
    case failed

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

    /// An error for a stored value that was authenticated, so that this library wrote it, and that
    /// this version cannot read.
    package static func otherFormat(_ value: String) -> CommonError {
        CommonError(
            code: .unsupported,
            reason: "\(value) is intact, and another version of Latchkey wrote it",
            recovery: "Nothing was changed. Use the version of the program that wrote it.")
    }

    package static func invalidInput(_ reason: String) -> CommonError {
        CommonError(
            code: .invalidInput, reason: reason, recovery: .correctValue)
    }

    package static func cancelled(_ reason: String = "the operation was cancelled") -> CommonError {
        CommonError(code: .cancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    /// A finger that does not match.
    package static func otherFinger() -> KeystoreError {
        KeystoreError(
            code: .wrongProof, reason: "the reader did not recognize the finger",
            recovery:
                "Try again with a finger that you enrolled. Some readers check only one of several."
        )
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
