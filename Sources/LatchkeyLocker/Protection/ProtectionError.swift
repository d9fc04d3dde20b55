public import FoundationEssentials
public import Latchkey

/// Why sensitive data was not encrypted or decrypted.
public enum ProtectionError: Error, Hashable, Sendable {
    /// The text is not what `encrypt` made: it is cut short or something else.
    case malformed
    /// The secret is longer than ``Locker/maximumSecretBytes``.
    case tooLong
    /// It was made by another enrolment: another device or user, or before the enrolment was destroyed.
    case wrongEnrolment
    /// The status doesn't allow for it.
    case levelNotSatisfied(required: ProtectionLevel, current: SessionPhase)
    /// The status allows for it, and the key is not in memory: open the locker first.
    case keyUnavailable
    /// The text was changed.
    case integrity

    /// The same in the vocabulary of `KeystoreError`, from which a program's exit code follows.
    public var keystoreCode: KeystoreError.Code {
        switch self {
        case .tooLong: .invalidInput
        case .wrongEnrolment: .wrongDevice
        case .levelNotSatisfied, .keyUnavailable: .wrongState
        case .malformed, .integrity: .damaged
        }
    }

    /// The one word.
    public var code: String {
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
    /// One sentence for people.
    public var description: String {
        switch self {
        case .malformed: "Could not decrypt: it is not what a locker has encrypted, or not all of it."
        case .tooLong: "Could not encrypt: it is longer than 1 MiB."
        case .wrongEnrolment: "Could not decrypt: it was encrypted under another enrolment."
        case .levelNotSatisfied(let required, let current):
            "Could not use the level ‘\(required.rawValue)’: \(Self.words(for: current))."
        case .keyUnavailable: "Could not use the data: the locker is not open."
        case .integrity: "Could not decrypt: the data was changed."
        }
    }

    private static func words(for phase: SessionPhase) -> String {
        switch phase {
        case .unregistered: "this device is not enrolled"
        case .enrolled: "there is no session"
        case .activeViaStrongAuth, .activeViaEasyAccess: "the session does not open it"
        case .backgroundAccess: "there is background access only"
        case .verifiedOffline: "the server was not there, and it takes part in opening that level"
        }
    }

    public var errorDescription: String? { description }

    /// One sentence: what to do next.
    public var recoverySuggestion: String? {
        switch self {
        case .malformed: "Give what ‘encrypt’ returned, whole."
        case .tooLong: "Store it in a file, encrypted under a key of which you encrypt the bytes here."
        case .wrongEnrolment: "Nothing can read it any more unless that enrolment is found; fetch the data anew."
        case .levelNotSatisfied: "Start a session that the level asks for, then try again."
        case .keyUnavailable: "Initialize the locker, then try again."
        case .integrity: "Take an unchanged copy."
        }
    }
}
