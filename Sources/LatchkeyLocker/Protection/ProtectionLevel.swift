public import FoundationEssentials
package import Latchkey

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
public enum ProtectionError: Error, Hashable, Sendable {
    /// The text is not from `encrypt`, or is incomplete.
    case malformed
    /// The secret is longer than 1 MiB.
    case tooLong
    /// The text belongs to another enrolment: of another device or user, or one that was destroyed.
    case wrongEnrolment
    /// The level is not open in the current status.
    case levelNotSatisfied(required: ProtectionLevel, current: SessionPhase)
    /// The level is open, and the key is not in memory: open the locker first.
    case keyUnavailable
    /// The text was changed after encryption.
    case integrity

    /// The corresponding code of `KeystoreError`, which determines the tool's exit code.
    package var keystoreCode: KeystoreError.Code {
        switch self {
        case .tooLong: .invalidInput
        case .wrongEnrolment: .wrongDevice
        case .levelNotSatisfied, .keyUnavailable: .wrongState
        case .malformed, .integrity: .damaged
        }
    }

    /// The name of the case.
    package var code: String {
        switch self {
        case .malformed: "malformed"
        case .tooLong: "tooLong"
        case .wrongEnrolment: "wrongEnrolment"
        case .levelNotSatisfied: "levelNotSatisfied"
        case .keyUnavailable: "keyUnavailable"
        case .integrity: "integrity"
        }
    }
}

extension ProtectionError: CustomStringConvertible, LocalizedError {
    /// One sentence for the user.
    public var description: String {
        switch self {
        case .malformed: "Could not decrypt: the text is not from a locker, or is incomplete."
        case .tooLong: "Could not encrypt: the secret is longer than 1 MiB."
        case .wrongEnrolment: "Could not decrypt: the text was encrypted under another enrolment."
        case .levelNotSatisfied(let required, let current):
            "Could not use the level ‘\(required.rawValue)’: \(Self.words(for: current))."
        case .keyUnavailable: "Could not use the data: the locker is not open."
        case .integrity: "Could not decrypt: the text was changed."
        }
    }

    private static func words(for phase: SessionPhase) -> String {
        switch phase {
        case .unregistered: "this device is not enrolled"
        case .enrolled: "there is no session"
        case .activeViaStrongAuth, .activeViaEasyAccess: "the session does not open it"
        case .backgroundAccess: "there is only background access"
        case .verifiedOffline: "opening that level requires the server, which could not be reached"
        }
    }

    public var errorDescription: String? { description }

    /// The next step, one sentence.
    public var recoverySuggestion: String? {
        switch self {
        case .malformed: "Pass the complete text that ‘encrypt’ returned."
        case .tooLong: "Encrypt the file with a random key, and store only that key here."
        case .wrongEnrolment: "Only that enrolment can decrypt it. Fetch the data again from its source."
        case .levelNotSatisfied: "Start a session that opens the level, then try again."
        case .keyUnavailable: "Initialize the locker, then try again."
        case .integrity: "Use an unchanged copy."
        }
    }
}
