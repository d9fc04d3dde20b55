import FoundationEssentials
import Latchkey
import LatchkeyLocker

extension RecordContainer {
    /// The key that an argument names, from its row; the hardware is not asked. What has the form of a whole id
    /// is one, and never a label.
    ///
    /// - Throws: ``KeystoreError``: `notFound` when the container has no such key, `invalidInput` when several have the
    ///   label or an id that begins so.
    func storedKey(_ argument: KeyIDArgument) async throws(KeystoreError) -> (key: HardwareKey, generation: Int) {
        if let id = KeyID(rawValue: argument.text), let record = try await metadata(RecordID(id)),
            record.kind == .key, let key = record.key
        {
            return (try Self.checked(key, record), record.generation)
        }
        let isID = UUID(uuidString: argument.text) != nil
        let prefix = IDPrefix(argument.text)
        let fitting = try await list(.key).filter { record in
            guard let key = record.key else { return false }
            return !isID && key.label == argument.text
                || prefix?.begins(key.id.rawValue) == true
        }
        guard let record = fitting.first, let key = record.key else {
            throw .notFound(
                "find the key", "the container ‘\(name)’ has no key ‘\(argument.text)’",
                recovery: "See ‘latchkey key list’, and --container for the keys of other containers.")
        }
        guard fitting.count == 1 else {
            throw KeystoreError(
                operation: "find the key", code: .invalidInput,
                reason:
                    "\(fitting.count) keys of the container ‘\(name)’ have the label ‘\(argument.text)’ or begin so",
                recovery: "Write the whole id; see ‘latchkey key list’.")
        }
        return (try Self.checked(key, record), record.generation)
    }

    /// A row of another key's ID names no key.
    private static func checked(_ key: HardwareKey, _ record: Record) throws(KeystoreError) -> HardwareKey {
        guard record.id == RecordID(key.id) else {
            throw KeystoreError(
                operation: "find the key", code: .damaged,
                reason: "the row ‘\(record.id)’ holds the key ‘\(key.id)’",
                recovery:
                    "Nothing was changed. Restore the store from a backup, or delete this key and create a new one.")
        }
        return key
    }

    /// The key that an argument names, to be used in the hardware that was named.
    ///
    /// - Throws: ``KeystoreError``: as ``storedKey(_:)``, and `wrongDevice` for a key of another kind of hardware.
    func usableKey(_ argument: KeyIDArgument) async throws(KeystoreError) -> (key: HardwareKey, generation: Int) {
        let (key, generation) = try await storedKey(argument)
        guard key.backend != keystore.backend else { return (key, generation) }
        let isToken = key.backend == "pkcs11"
        throw KeystoreError(
            operation: "use the key ‘\(key.label ?? key.id.rawValue)’", code: .wrongDevice,
            reason: isToken ? "it is on a token, and none is named" : "it is in the TPM, and a token is named",
            recovery: isToken
                ? "Name its token with --token or LATCHKEY_TOKEN; ‘latchkey token list’ has the URIs."
                : "Leave out --token (and LATCHKEY_TOKEN) to use it.")
    }

    /// Sees to it that a key is the user's own, and not a part of something that would break without it.
    ///
    /// - Parameter operation: What is about to be done, as a verb phrase.
    /// - Throws: ``KeystoreError`` with code `conflict` for a key that an enrolment uses.
    func checkIsOwn(_ key: HardwareKey, to operation: String) async throws(KeystoreError) {
        guard try await StoredEnrolment.keys(in: self).contains(key.id) else { return }
        throw KeystoreError(
            operation: operation, code: .conflict, reason: "the key \(key.id) is the locker's, which uses it alone",
            recovery:
                "See ‘latchkey locker status’; ‘latchkey locker end --mode destroy’ deletes it with the enrolment.")
    }
}
