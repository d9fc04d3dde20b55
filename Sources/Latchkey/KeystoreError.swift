public import FoundationEssentials

/// Why something with keys, secrets or records did not happen, and what a person can do about it.
///
/// Two errors are equal when their ``code`` is equal; prose and details don't count.
public struct KeystoreError: Error, Sendable {
    /// What was being done, as a verb phrase: `sign`, `create a key`.
    public let operation: String
    /// The one word for what went wrong.
    public let code: Code
    /// One sentence: the cause.
    public let reason: String
    /// One sentence: what to do next.
    public let recovery: String
    /// How many more wrong proofs the hardware will take, where it says so. Set with `wrongProof`.
    public let attemptsLeft: Int?
    /// When the hardware will take a proof again, where it says so. Set with `lockedOut`.
    public let lockedOutUntil: Date?
    /// What the layer below said, where there is one.
    public let underlying: Underlying?

    /// An error; `reason` and `recovery` are what people read, so both are sentences or clauses without a secret.
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

    /// What a lower layer answered.
    public struct Underlying: Hashable, Sendable, CustomStringConvertible {
        /// `tpm`, `tcti`, `pkcs11`, `sqlite`, `pinentry`, `http` …
        public let layer: String
        /// The layer's own code, where it has one.
        public let rawCode: UInt32?
        /// The code in words.
        public let text: String

        /// What a layer below said.
        public init(layer: String, rawCode: UInt32? = nil, text: String) {
            self.layer = layer
            self.rawCode = rawCode
            self.text = text
        }

        public var description: String {
            rawCode.map { "\(layer) 0x\(String($0, radix: 16)): \(text)" } ?? "\(layer): \(text)"
        }
    }

    /// The vocabulary, one for every backend and facade.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case notFound, cancelled, wrongProof, lockedOut, unavailable, notEnrolled, passcodeNotSet, invalidated
            case wrongDevice, damaged, transient, conflict, unsupported, invalidInput, wrongState, refused, failed
        }

        private let name: Name

        /// There is no such key, record or secret.
        public static let notFound = Code(name: .notFound)
        /// The person declined, or nobody answered in time.
        public static let cancelled = Code(name: .cancelled)
        /// The PIN or finger was not the right one.
        public static let wrongProof = Code(name: .wrongProof)
        /// The hardware takes no proofs for now.
        public static let lockedOut = Code(name: .lockedOut)
        /// The hardware, reader, broker or network can't be reached.
        public static let unavailable = Code(name: .unavailable)
        /// No finger is enrolled.
        public static let notEnrolled = Code(name: .notEnrolled)
        /// The policy wants a PIN and none is set.
        public static let passcodeNotSet = Code(name: .passcodeNotSet)
        /// What the key was bound to has changed for good.
        public static let invalidated = Code(name: .invalidated)
        /// The key belongs to other hardware, or the hardware was cleared.
        public static let wrongDevice = Code(name: .wrongDevice)
        /// Stored bytes are not what was stored. They were left as they are.
        public static let damaged = Code(name: .damaged)
        /// It may work when tried again.
        public static let transient = Code(name: .transient)
        /// Somebody else changed it meanwhile, or it is there already.
        public static let conflict = Code(name: .conflict)
        /// This hardware or version can't do it.
        public static let unsupported = Code(name: .unsupported)
        /// An argument is out of its bounds.
        public static let invalidInput = Code(name: .invalidInput)
        /// The call does not fit the present state.
        public static let wrongState = Code(name: .wrongState)
        /// The other side (a server, an operator's rule) said no.
        public static let refused = Code(name: .refused)
        /// Anything else.
        public static let failed = Code(name: .failed)

        /// The word, for example `lockedOut`.
        public var description: String { name.rawValue }
    }
}

extension KeystoreError: Equatable {
    public static func == (left: KeystoreError, right: KeystoreError) -> Bool { left.code == right.code }
}

extension KeystoreError: CustomStringConvertible, LocalizedError {
    /// One sentence for people: `Could not sign: the PIN is wrong; 2 attempts are left.`
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
