public import FoundationEssentials
public import Latchkey

/// Why sensitive data was not encrypted or decrypted.
public enum ProtectionError: Error, Hashable, Sendable {
    /// The text is not what `encrypt` made, or the secret is too long.
    case malformed
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
        case .malformed: .invalidInput
        case .wrongEnrolment: .wrongDevice
        case .levelNotSatisfied, .keyUnavailable: .wrongState
        case .integrity: .damaged
        }
    }

    /// The one word.
    public var code: String {
        switch self {
        case .malformed: "malformed"
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
        case .malformed: "Could not use the data: it is not what a locker encrypts, or is too long."
        case .wrongEnrolment: "Could not decrypt: it was encrypted under another enrolment."
        case .levelNotSatisfied(let required, let current):
            "Could not use the level ‘\(required.rawValue)’: the session is \(current.rawValue)."
        case .keyUnavailable: "Could not use the data: the locker is not open."
        case .integrity: "Could not decrypt: the data was changed."
        }
    }

    public var errorDescription: String? { description }

    /// One sentence: what to do next.
    public var recoverySuggestion: String? {
        switch self {
        case .malformed: "Give what ‘encrypt’ returned, whole, or a secret of at most 1 MiB."
        case .wrongEnrolment: "Nothing can read it any more unless that enrolment is found; fetch the data anew."
        case .levelNotSatisfied: "Start a session that the level asks for, then try again."
        case .keyUnavailable: "Initialize the locker, then try again."
        case .integrity: "Take an unchanged copy."
        }
    }
}
