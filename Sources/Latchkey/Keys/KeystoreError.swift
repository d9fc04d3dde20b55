public import FoundationEssentials

/// An error of an operation with keys, secrets or records: its cause, and the user's next step.
///
/// Two errors are equal if their ``code`` is equal; texts and details don't count.
public struct KeystoreError: Error, Sendable {
    /// The operation that failed, as a verb phrase: `sign`, `create a key`.
    public let operation: String
    /// The kind of error.
    public let code: Code
    /// The cause, as one clause.
    public let reason: String
    /// The next step, as one sentence.
    public let recovery: String
    /// The number of wrong PINs before the lockout, or nil if unknown. Set with `wrongProof`.
    public let attemptsLeft: Int?
    /// The end of the lockout, or nil if unknown. Set with `lockedOut`.
    public let lockedOutUntil: Date?
    /// The error of the layer below, or nil.
    public let underlying: Underlying?

    /// Creates an error. Users read `reason` and `recovery`: neither may contain a secret.
    public init(
        operation: String,
        code: Code,
        reason: String,
        recovery: String,
        attemptsLeft: Int? = nil,
        lockedOutUntil: Date? = nil,
        underlying: Underlying? = nil
    ) {
        self.operation = operation
        self.code = code
        self.reason = reason
        self.recovery = recovery
        self.attemptsLeft = attemptsLeft
        self.lockedOutUntil = lockedOutUntil
        self.underlying = underlying
    }

    /// The error of a lower layer.
    public struct Underlying: Hashable, Sendable, CustomStringConvertible {
        /// `tpm`, `tcti`, `pkcs11`, `sqlite`, `pinentry`, `http` …
        public let layer: String
        /// The layer's own code, or nil.
        public let rawCode: UInt32?
        /// The meaning of the code.
        public let text: String

        package init(layer: String, rawCode: UInt32? = nil, text: String) {
            self.layer = layer
            self.rawCode = rawCode
            self.text = text
        }

        public var description: String {
            rawCode.map { "\(layer) 0x\(String($0, radix: 16)): \(text)" } ?? "\(layer): \(text)"
        }
    }

    /// The kinds of errors, the same for every backend and facade.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case notFound, cancelled, wrongProof, lockedOut, unavailable, notEnrolled, passcodeNotSet, invalidated
            case wrongDevice, damaged, transient, conflict, unsupported, invalidInput, wrongState, refused, failed
        }

        private let name: Name

        /// The key, record or secret does not exist.
        public static let notFound = Code(name: .notFound)
        /// The user declined, or did not answer in time.
        public static let cancelled = Code(name: .cancelled)
        /// The PIN is wrong, or the fingerprint does not match.
        public static let wrongProof = Code(name: .wrongProof)
        /// The hardware refuses every PIN for now.
        public static let lockedOut = Code(name: .lockedOut)
        /// The hardware, reader, broker or network cannot be reached.
        public static let unavailable = Code(name: .unavailable)
        /// No fingerprint is enrolled.
        public static let notEnrolled = Code(name: .notEnrolled)
        /// The policy requires a PIN, and none is set.
        public static let passcodeNotSet = Code(name: .passcodeNotSet)
        /// The key was revoked, or the enrolled fingerprints that it depends on have changed.
        public static let invalidated = Code(name: .invalidated)
        /// The key belongs to other hardware, or the hardware was cleared.
        public static let wrongDevice = Code(name: .wrongDevice)
        /// Stored bytes were changed by something other than Latchkey. Latchkey has not overwritten them.
        public static let damaged = Code(name: .damaged)
        /// A retry may succeed.
        public static let transient = Code(name: .transient)
        /// Another caller or program changed the value first, or it exists already.
        public static let conflict = Code(name: .conflict)
        /// This hardware or version does not support the operation.
        public static let unsupported = Code(name: .unsupported)
        /// An argument is out of its bounds.
        public static let invalidInput = Code(name: .invalidInput)
        /// The call does not fit the present state.
        public static let wrongState = Code(name: .wrongState)
        /// A server, or a rule of this machine, refused the operation.
        public static let refused = Code(name: .refused)
        /// Any other error.
        public static let failed = Code(name: .failed)

        /// The name, for example `lockedOut`.
        public var description: String { name.rawValue }
    }
}

extension KeystoreError: Equatable {
    public static func == (left: KeystoreError, right: KeystoreError) -> Bool { left.code == right.code }
}

extension KeystoreError: CustomStringConvertible, LocalizedError {
    /// One sentence: `Could not sign: the PIN is wrong; 2 attempts are left.`
    public var description: String { "Could not \(operation): \(reason)." }

    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}

extension KeystoreError {
    package static func damaged(_ operation: String, _ reason: String, underlying: Underlying? = nil) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .damaged, reason: reason,
            recovery: "Nothing was changed. Restore the store from a backup, or delete it and set up anew.",
            underlying: underlying)
    }

    package static func invalidInput(_ operation: String, _ reason: String) -> KeystoreError {
        KeystoreError(operation: operation, code: .invalidInput, reason: reason, recovery: "Correct it and try again.")
    }

    package static func cancelled(_ operation: String, _ reason: String = "it was cancelled") -> KeystoreError {
        KeystoreError(
            operation: operation, code: .cancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    package static func unsupported(_ operation: String, _ reason: String, recovery: String) -> KeystoreError {
        KeystoreError(operation: operation, code: .unsupported, reason: reason, recovery: recovery)
    }

    package static func notFound(_ operation: String, _ reason: String, recovery: String) -> KeystoreError {
        KeystoreError(operation: operation, code: .notFound, reason: reason, recovery: recovery)
    }

    package static func conflict(
        _ operation: String, _ reason: String, recovery: String = "Try again."
    ) -> KeystoreError {
        KeystoreError(operation: operation, code: .conflict, reason: reason, recovery: recovery)
    }
}
