public import Latchkey

/// The protection level of encrypted text: the statuses in which it can be encrypted and decrypted.
public enum ProtectionLevel: String, Hashable, Sendable, Codable, CaseIterable {
    /// While this device is enrolled.
    case base
    /// During background access or an active session.
    case background
    /// After user verification, with or without a network.
    case offline
    /// During an active session.
    case active

    /// The level's byte in a ciphertext.
    var byte: UInt8 {
        switch self {
        case .base: 0
        case .background: 1
        case .offline: 2
        case .active: 3
        }
    }

    init?(byte: UInt8) {
        guard let level = Self.allCases.first(where: { $0.byte == byte }) else { return nil }
        self = level
    }
}

/// An error of encryption or decryption.
public typealias ProtectionError = LatchkeyError<ProtectionErrorCode>

/// The kinds of errors of encryption and decryption.
public enum ProtectionErrorCode: String, LatchkeyErrorCode {
    /// The text is not from `encrypt`, or is incomplete.
    case malformed
    /// The secret is longer than 1 MiB.
    case tooLong
    /// The text belongs to another enrolment: of another device or user, or one that was destroyed.
    case wrongEnrolment
    /// The level is not open in the current status.
    case levelNotSatisfied
    /// The level is open, and the key is not in memory: open the locker first.
    case keyUnavailable
    /// The text was changed after encryption.
    case integrity

    /// The level that is required.
    public typealias Details = ProtectionLevel

    public var commonCode: CommonErrorCode {
        switch self {
        case .tooLong: .invalidInput
        case .wrongEnrolment: .wrongDevice
        case .levelNotSatisfied, .keyUnavailable: .wrongState
        case .malformed, .integrity: .damaged
        }
    }
}

extension ProtectionError {
    /// The required level of an error with code `levelNotSatisfied`.
    public var requiredLevel: ProtectionLevel? { details }

    static let malformed = ProtectionError(
        operation: "decrypt", code: .malformed,
        reason: "the text is not the complete output of a locker",
        recovery: "Pass the complete text that ‘encrypt’ returned.")
    static let tooLong = ProtectionError(
        operation: "encrypt", code: .tooLong, reason: "the secret is longer than 1 MiB",
        recovery: "Encrypt the file with a random key, and store only that key here.")
    package static let wrongEnrolment = ProtectionError(
        operation: "decrypt", code: .wrongEnrolment,
        reason: "the text was encrypted under another enrolment",
        recovery: "Only that enrolment can decrypt it. Fetch the data again from its source.")
    static let keyUnavailable = ProtectionError(
        operation: "use the data", code: .keyUnavailable, reason: "the locker is not open",
        recovery: "Initialize the locker, then try again.")
    static let integrity = ProtectionError(
        operation: "decrypt", code: .integrity, reason: "the text was changed",
        recovery: "Use an unchanged copy.")

    static func levelNotSatisfied(required: ProtectionLevel, current: SessionPhase)
        -> ProtectionError
    {
        let reason =
            switch current {
            case .unregistered: "this device is not enrolled"
            case .enrolled: "there is no session"
            case .activeViaStrongAuth, .activeViaEasyAccess: "the session does not open this level"
            case .backgroundAccess: "there is only background access"
            case .verifiedOffline:
                "opening that level requires the server, which could not be reached"
            }
        return ProtectionError(
            operation: "use the level ‘\(required.rawValue)’", code: .levelNotSatisfied,
            reason: reason,
            recovery: "Start a session that opens the level, then try again.",
            details: required)
    }
}
