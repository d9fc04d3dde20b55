/// An error of an operation with keys, secrets or records.
public typealias KeystoreError = LatchkeyError<KeystoreErrorCode>

/// The kinds of errors of keys, secrets and records, the same for every backend.
public struct KeystoreErrorCode: LatchkeyErrorCode {
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

    public var keystoreCode: KeystoreErrorCode { self }
}

extension KeystoreError {
    package static func damaged(_ reason: String, underlying: UnderlyingError? = nil)
        -> KeystoreError
    {
        KeystoreError(
            code: .damaged, reason: reason,
            recovery:
                "Nothing was changed. Restore the store from a backup, or delete the damaged entry.",
            underlying: underlying)
    }

    package static func invalidInput(_ reason: String) -> KeystoreError {
        KeystoreError(
            code: .invalidInput, reason: reason, recovery: "Correct the value and try again.")
    }

    package static func cancelled(_ reason: String = "the operation was cancelled") -> KeystoreError
    {
        KeystoreError(code: .cancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    package static func unsupported(_ reason: String, recovery: String) -> KeystoreError {
        KeystoreError(code: .unsupported, reason: reason, recovery: recovery)
    }

    package static func notFound(_ reason: String, recovery: String) -> KeystoreError {
        KeystoreError(code: .notFound, reason: reason, recovery: recovery)
    }

    package static func conflict(_ reason: String, recovery: String = "Try again.") -> KeystoreError
    {
        KeystoreError(code: .conflict, reason: reason, recovery: recovery)
    }

    /// This lockout error, with the reason why a stronger proof did not lift the lockout, and that
    /// failure's next step.
    package func remaining(after failure: KeystoreError) -> KeystoreError {
        KeystoreError(
            operation: operation, code: code, reason: "\(reason), and \(failure.reason)",
            recovery: failure.recovery,
            attemptsLeft: attemptsLeft, lockedOutUntil: lockedOutUntil,
            underlying: failure.underlying)
    }
}
