public import FoundationEssentials
public import Latchkey

/// An error of a locker, with the next step. Two errors are equal when their ``code`` is equal.
public struct ErsteGroupAuthError: Error, Sendable {
    /// The operation as a verb phrase: `start the session`.
    public let operation: String
    /// The kind of error.
    public let code: Code
    /// The cause, one clause.
    public let reason: String
    /// The next step, one sentence.
    public let recovery: String
    /// The number of wrong secrets that the hardware still accepts, if known.
    public let attemptsLeft: Int?
    /// The time at which the hardware accepts a secret again, if known.
    public let lockedOutUntil: Date?
    /// The `error` of the server's answer, if there is one.
    public let serverError: String?
    /// The HTTP status of the server's error, if there is one.
    public let httpStatus: Int?
    /// The error of a lower layer, if there is one.
    public let underlying: KeystoreError.Underlying?

    /// Makes an error.
    package init(
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

    /// The kinds of errors.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The name of the code, for example `wrongSecret`.
        public let description: String
        /// The corresponding code of `KeystoreError`, which determines the tool's exit code.
        package let keystoreCode: KeystoreError.Code

        private init(_ name: String, _ keystoreCode: KeystoreError.Code) {
            description = name
            self.keystoreCode = keystoreCode
        }

        /// There is no open locker: call `initializeLocker` first.
        public static let notInitialized = Code("notInitialized", .wrongState)
        /// There is a locker with another configuration.
        public static let alreadyInitialized = Code("alreadyInitialized", .wrongState)
        /// A value of the configuration is invalid, or does not fit the server.
        public static let invalidConfiguration = Code("invalidConfiguration", .invalidInput)
        /// An argument is invalid.
        public static let invalidInput = Code("invalidInput", .invalidInput)
        /// Another call is running.
        public static let userInteractionInProgress = Code("userInteractionInProgress", .conflict)
        /// There is no prompt.
        public static let noActiveUI = Code("noActiveUI", .wrongState)
        /// The user declined, the prompt was dismissed, or it timed out.
        public static let userCancelled = Code("userCancelled", .cancelled)
        /// This device is not enrolled.
        public static let notEnrolled = Code("notEnrolled", .notFound)
        /// The call requires an active session.
        public static let notActive = Code("notActive", .wrongState)
        /// Easy access is not enabled.
        public static let easyAccessDisabled = Code("easyAccessDisabled", .notFound)
        /// Easy access is enabled already.
        public static let easyAccessEnabled = Code("easyAccessEnabled", .conflict)
        /// The secret is wrong, or the finger does not match.
        public static let wrongSecret = Code("wrongSecret", .wrongProof)
        /// The hardware does not accept a secret for now.
        public static let secretLockedOut = Code("secretLockedOut", .lockedOut)
        /// User verification is not possible, or not allowed without the network any more.
        public static let verificationUnavailable = Code("verificationUnavailable", .unavailable)
        /// The server requires a login.
        public static let strongAuthRequired = Code("strongAuthRequired", .refused)
        /// A different user logged in; this device is enrolled for another account.
        public static let userMismatch = Code("userMismatch", .refused)
        /// There is no network, and the call requires it.
        public static let offline = Code("offline", .unavailable)
        /// The server can't be reached.
        public static let network = Code("network", .unavailable)
        /// The server refused, or its answer does not follow the protocol.
        public static let server = Code("server", .refused)
        /// The server no longer knows the enrolment; it was deleted here too.
        public static let enrolmentRevoked = Code("enrolmentRevoked", .notFound)
        /// The server no longer knows the secret's key; easy access was disabled here too.
        public static let easyAccessRevoked = Code("easyAccessRevoked", .notFound)
        /// The enrolment is deleted here. The server is told, and the hardware revokes its keys, when that is possible.
        public static let revocationPending = Code("revocationPending", .unavailable)
        /// The store belongs to another server or client.
        public static let environmentChanged = Code("environmentChanged", .conflict)
        /// A stored record is damaged. It was left unchanged.
        public static let storageCorrupted = Code("storageCorrupted", .damaged)
        /// The enrolment belongs to other hardware.
        public static let wrongDevice = Code("wrongDevice", .wrongDevice)
        /// Another program changed the enrolment at the same time.
        public static let conflict = Code("conflict", .conflict)
        /// The hardware does not support the operation, or failed.
        public static let hardware = Code("hardware", .unavailable)
    }
}

extension ErsteGroupAuthError: Equatable {
    public static func == (left: ErsteGroupAuthError, right: ErsteGroupAuthError) -> Bool { left.code == right.code }
}

extension ErsteGroupAuthError: CustomStringConvertible, LocalizedError {
    /// One sentence for the user: `Could not start the session: the PIN is wrong.`
    public var description: String { "Could not \(operation): \(reason)." }
    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}
