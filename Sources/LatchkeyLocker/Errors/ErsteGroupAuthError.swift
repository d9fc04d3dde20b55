public import FoundationEssentials
public import Latchkey

/// Why something with a session did not happen, and what a person can do about it. Two errors are equal when their
/// ``code`` is equal.
public struct ErsteGroupAuthError: Error, Sendable {
    /// What was being done, as a verb phrase: `start the session`.
    public let operation: String
    /// The one word for what went wrong.
    public let code: Code
    /// One clause: the cause.
    public let reason: String
    /// One sentence: what to do next.
    public let recovery: String
    /// How many more wrong secrets the hardware will take, where it says so.
    public let attemptsLeft: Int?
    /// When the hardware takes a secret again, where it says so.
    public let lockedOutUntil: Date?
    /// The `error` of the server's answer, where there is one.
    public let serverError: String?
    /// The status of the server's answer, where it was an answer that went wrong.
    public let httpStatus: Int?
    /// What a lower layer said, where there is one.
    public let underlying: KeystoreError.Underlying?

    /// An error of the given code.
    public init(
        operation: String, code: Code, reason: String, recovery: String, attemptsLeft: Int? = nil,
        lockedOutUntil: Date? = nil, serverError: String? = nil, httpStatus: Int? = nil,
        underlying: KeystoreError.Underlying? = nil
    ) {
        self.operation = operation
        self.code = code
        self.reason = reason
        self.recovery = recovery
        self.attemptsLeft = attemptsLeft
        self.lockedOutUntil = lockedOutUntil
        self.serverError = serverError
        self.httpStatus = httpStatus
        self.underlying = underlying
    }

    /// The vocabulary.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case notInitialized, alreadyInitialized, invalidConfiguration, invalidInput, userInteractionInProgress
            case noActiveUI, userCancelled, notEnrolled, notActive, easyAccessDisabled, easyAccessEnabled, wrongSecret
            case secretLockedOut, verificationUnavailable, strongAuthRequired, userMismatch, offline, network, server
            case enrolmentRevoked, easyAccessRevoked, revocationPending, environmentChanged, storageCorrupted
            case wrongDevice, conflict, hardware
        }

        private let name: Name
        /// The same in the vocabulary of `KeystoreError`, from which a program's exit code follows.
        public let keystoreCode: KeystoreError.Code

        private init(_ name: Name, _ keystoreCode: KeystoreError.Code) {
            self.name = name
            self.keystoreCode = keystoreCode
        }

        /// There is no locker yet: `initializeLocker` comes first.
        public static let notInitialized = Code(.notInitialized, .wrongState)
        /// There is one already, with another configuration.
        public static let alreadyInitialized = Code(.alreadyInitialized, .wrongState)
        /// A value of the configuration can't be used, or does not fit the server.
        public static let invalidConfiguration = Code(.invalidConfiguration, .invalidInput)
        /// An argument is out of its bounds.
        public static let invalidInput = Code(.invalidInput, .invalidInput)
        /// Somebody is being asked already.
        public static let userInteractionInProgress = Code(.userInteractionInProgress, .conflict)
        /// Nobody is being asked.
        public static let noActiveUI = Code(.noActiveUI, .wrongState)
        /// The person declined, the prompt was dismissed, or nobody answered in time.
        public static let userCancelled = Code(.userCancelled, .cancelled)
        /// This device is not enrolled.
        public static let notEnrolled = Code(.notEnrolled, .notFound)
        /// It takes an active session.
        public static let notActive = Code(.notActive, .wrongState)
        /// There is no secret for easy access.
        public static let easyAccessDisabled = Code(.easyAccessDisabled, .notFound)
        /// There is one already.
        public static let easyAccessEnabled = Code(.easyAccessEnabled, .conflict)
        /// The secret or finger was not the right one.
        public static let wrongSecret = Code(.wrongSecret, .wrongProof)
        /// The hardware takes no secret for now.
        public static let secretLockedOut = Code(.secretLockedOut, .lockedOut)
        /// The person can't be asked, or may not be recognised without the network any more.
        public static let verificationUnavailable = Code(.verificationUnavailable, .unavailable)
        /// The server wants the user to log in.
        public static let strongAuthRequired = Code(.strongAuthRequired, .refused)
        /// Somebody else logged in than the user for whom this device is enrolled.
        public static let userMismatch = Code(.userMismatch, .refused)
        /// There is no network, and the call needs it.
        public static let offline = Code(.offline, .unavailable)
        /// The server can't be reached.
        public static let network = Code(.network, .unavailable)
        /// The server said no, or something that its protocol doesn't have.
        public static let server = Code(.server, .refused)
        /// The server no longer knows the enrolment; it was deleted here too.
        public static let enrolmentRevoked = Code(.enrolmentRevoked, .notFound)
        /// The server no longer knows the secret's key; easy access was disabled here too.
        public static let easyAccessRevoked = Code(.easyAccessRevoked, .notFound)
        /// All is deleted here; the server will be told, and the hardware will take its part back, when that can be done.
        public static let revocationPending = Code(.revocationPending, .unavailable)
        /// The store belongs to another server or client.
        public static let environmentChanged = Code(.environmentChanged, .conflict)
        /// Something stored is not what was stored. It was left as it is.
        public static let storageCorrupted = Code(.storageCorrupted, .damaged)
        /// The enrolment belongs to other hardware.
        public static let wrongDevice = Code(.wrongDevice, .wrongDevice)
        /// Another program changed the enrolment meanwhile.
        public static let conflict = Code(.conflict, .conflict)
        /// The hardware can't do it.
        public static let hardware = Code(.hardware, .unavailable)

        /// The word, for example `wrongSecret`.
        public var description: String { name.rawValue }

        public static func == (left: Code, right: Code) -> Bool { left.name == right.name }
        public func hash(into hasher: inout Hasher) { hasher.combine(name) }
    }
}

extension ErsteGroupAuthError: Equatable {
    public static func == (left: ErsteGroupAuthError, right: ErsteGroupAuthError) -> Bool { left.code == right.code }
}

extension ErsteGroupAuthError: CustomStringConvertible, LocalizedError {
    /// One sentence for people: `Could not start the session: the PIN is wrong.`
    public var description: String { "Could not \(operation): \(reason)." }
    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}
