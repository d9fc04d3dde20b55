import FoundationEssentials
import Latchkey
import LatchkeyLocker

extension RecordContainer {
    /// The key that an argument names, from its record. Does not use the hardware. An argument with the form of a complete
    /// ID is never a label.
    ///
    /// - Throws: ``KeystoreError``: `notFound` if the container has no such key, `invalidInput` if the argument matches
    ///   several keys.
    func storedKey(_ argument: KeyIDArgument) async throws(KeystoreError) -> (key: HardwareKey, generation: Int) {
        if let id = KeyID(rawValue: argument.text), let record = try await metadata(RecordID(id)),
            record.kind == Record.keyKind, let key = record.key
        {
            return try Self.checked(key, record)
        }
        let isID = UUID(uuidString: argument.text) != nil
        let prefix = IDPrefix(argument.text)
        let fitting = try await list(Record.keyKind).filter { record in
            guard let key = record.key else { return false }
            return !isID && key.label == argument.text
                || prefix?.begins(key.id.rawValue) == true
        }
        guard let record = fitting.first, let key = record.key else {
            throw KeystoreError(
                operation: "find the key", code: .notFound,
                reason: "the container ‘\(name)’ has no key ‘\(argument.text)’",
                recovery: "See ‘latchkey key list’, and --container for the keys of other containers.")
        }
        guard fitting.count == 1 else {
            throw KeystoreError(
                operation: "find the key", code: .invalidInput,
                reason:
                    "\(fitting.count) keys of the container ‘\(name)’ have the label or an ID that begins with ‘\(argument.text)’",
                recovery: "Use the complete ID; see ‘latchkey key list’.")
        }
        return try Self.checked(key, record)
    }

    /// Checks that the record and its key have the same ID.
    private static func checked(
        _ key: HardwareKey, _ record: Record
    ) throws(KeystoreError) -> (key: HardwareKey, generation: Int) {
        guard record.id == RecordID(key.id) else {
            throw KeystoreError(
                operation: "find the key", code: .damaged,
                reason: "the record ‘\(record.id)’ contains the key ‘\(key.id)’",
                recovery:
                    "Nothing was changed. Restore the store from a backup, or delete this key and create a new one.")
        }
        return (key, record.generation)
    }

    /// The key that an argument names, for use in the configured hardware.
    ///
    /// - Throws: ``KeystoreError``: as ``storedKey(_:)``, and `wrongDevice` for a key of another kind of hardware.
    func usableKey(_ argument: KeyIDArgument) async throws(KeystoreError) -> (key: HardwareKey, generation: Int) {
        let found = try await storedKey(argument)
        let key = found.key
        guard key.backend != keystore.backend else { return found }
        let isToken = key.backend == "pkcs11"
        throw KeystoreError(
            operation: "use the key ‘\(key.name)’", code: .wrongDevice,
            reason: isToken
                ? "the key is on a token, and no token is configured"
                : "the key is in the TPM, and a token is configured",
            recovery: isToken
                ? "Set its token with --token or LATCHKEY_TOKEN; ‘latchkey token list’ shows the URIs."
                : "Remove --token and LATCHKEY_TOKEN.")
    }

    /// The key that an argument names, which must not belong to the locker: the locker would fail without it.
    ///
    /// - Parameter isUsed: Whether the operation uses the key in the configured hardware.
    /// - Throws: ``KeystoreError``: as ``usableKey(_:)`` or ``storedKey(_:)``, and `conflict` for a key of an enrolment.
    func ownKey(
        _ argument: KeyIDArgument, isUsed: Bool = true
    ) async throws(KeystoreError) -> (key: HardwareKey, generation: Int) {
        let found = isUsed ? try await usableKey(argument) : try await storedKey(argument)
        guard try await StoredEnrolment.keys(in: self).contains(found.key.id) else { return found }
        throw KeystoreError(
            operation: "use the key ‘\(found.key.name)’", code: .conflict,
            reason: "the key \(found.key.id) belongs to the locker",
            recovery:
                "See ‘latchkey locker status’; ‘latchkey locker end --mode destroy’ deletes it with the enrolment.")
    }
}

extension HardwareKey {
    /// The label if there is one, otherwise the ID.
    var name: String { label ?? id.rawValue }
}

/// The first characters of an ID, which can replace the complete ID in arguments.
struct IDPrefix {
    private let text: String

    /// - Returns: nil for a text of fewer than 4 characters.
    init?(_ text: String) {
        guard text.utf8.count >= 4 else { return nil }
        self.text = text.lowercased()
    }

    /// Whether the ID begins with this text, ignoring case.
    func begins(_ id: String) -> Bool { id.lowercased().hasPrefix(text) }
}
