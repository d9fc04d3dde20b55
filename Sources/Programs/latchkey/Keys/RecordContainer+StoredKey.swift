import FoundationEssentials
import Latchkey
import LatchkeySSH

extension RecordContainer {
    /// The record of the key that an argument names. Does not use the hardware.
    ///
    /// - Throws: ``KeystoreError``: `notFound` if the container has no such key or biometric login
    ///   uses it, `invalidInput` if the argument matches several keys.
    func storedKey(_ argument: KeyIDArgument) async throws(KeystoreError) -> StoredKey {
        if let id = KeyID(rawValue: argument.text), let record = try await metadata(RecordID(id)),
            record.kind == Record.keyKind, let key = record.key
        {
            return try StoredKey(key, record)
        }
        guard let record = try await named(argument), let key = record.key else {
            if let login = try await loginKey(argument) {
                throw .notFound(
                    "the key \(login.id) belongs to biometric login",
                    recovery:
                        "‘latchkey authenticate’ logs in with it, ‘latchkey pin change \(login.id)’ changes its PIN, and "
                        + "‘latchkey disable’ deletes it.")
            }
            throw .notFound(
                "the container ‘\(name)’ has no key ‘\(argument.text)’",
                recovery:
                    "See ‘latchkey key list’, and --container for the keys of other containers.")
        }
        guard record.kind == Record.keyKind else {
            throw KeystoreError(
                code: .conflict, reason: "the key ‘\(key.name)’ is an SSH key",
                recovery:
                    "‘latchkey ssh’ manages it; ‘latchkey ssh remove \(key.id)’ makes it an ordinary key, which ‘latchkey key delete \(key.id)’ deletes."
            )
        }
        return try StoredKey(key, record)
    }

    /// The record of the ordinary or SSH key that an argument names; nil if there is none. A name
    /// means the same key in all commands. Does not use the hardware.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if the argument matches several keys.
    func named(_ argument: KeyIDArgument) async throws(KeystoreError) -> Record? {
        try named(argument, among: try await keys())
    }

    private func named(
        _ argument: KeyIDArgument, among keys: [Record]
    ) throws(KeystoreError) -> Record? {
        let records = keys.filter { [Record.keyKind, SSHKeyRecord.kind].contains($0.kind) }
        for names in [argument.isID(of:), argument.isLabel(of:), argument.isPrefix(of:)] {
            let fitting = records.filter { $0.key.map(names) ?? false }
            guard fitting.count <= 1 else {
                throw argument.ambiguity(of: fitting.compactMap(\.key), in: name)
            }
            if let record = fitting.first { return record }
        }
        return nil
    }

    /// Checks before a prompt that a label can name a key: that no other ordinary or SSH key has it,
    /// and that it begins no key's ID. The transaction that stores the label checks it again, with
    /// ``isFree(label:)``.
    ///
    /// - Throws: ``KeystoreError`` with code `conflict`.
    func checkIsFree(label: String) async throws(KeystoreError) {
        try checkIsFree(label, among: try await keys())
    }

    /// The condition of the transaction that gives a key a label: another command may have given it
    /// to another key during the prompt.
    func isFree(label: String) -> RecordCondition {
        { records throws(KeystoreError) in
            try self.checkIsFree(label, among: try records.keys())
        }
    }

    private func checkIsFree(_ label: String, among keys: [Record]) throws(KeystoreError) {
        guard let taken = KeyIDArgument(argument: label),
            let record = try named(taken, among: keys), let key = record.key
        else { return }
        let kind = record.kind == SSHKeyRecord.kind ? "SSH key" : "key"
        throw KeystoreError(
            code: .conflict,
            reason: key.label == label
                ? "the container ‘\(name)’ already has the \(kind) ‘\(label)’ (\(key.id))"
                : "the label ‘\(label)’ is the beginning of the ID of the \(kind) \(key.id)",
            recovery:
                "Choose another label. ‘latchkey key list’ shows the labels, also those of SSH keys."
        )
    }

    /// The key of biometric login that an argument names; nil if there is none. Does not use the
    /// hardware.
    func loginKey(_ argument: KeyIDArgument) async throws(KeystoreError) -> HardwareKey? {
        try await keys().filter { ![Record.keyKind, SSHKeyRecord.kind].contains($0.kind) }
            .compactMap(\.key).first(
                where: argument.matches)
    }

    /// The key that an argument names, for use in the configured hardware.
    ///
    /// - Throws: ``KeystoreError``: as ``storedKey(_:)``, and `wrongDevice` for a key of another
    ///   kind of hardware.
    func usableKey(_ argument: KeyIDArgument) async throws(KeystoreError) -> StoredKey {
        let found = try await storedKey(argument)
        try checkPlace(of: found.key)
        return found
    }

    /// Checks that a key is in the configured hardware.
    ///
    /// - Throws: ``KeystoreError`` with code `wrongDevice`.
    func checkPlace(of key: HardwareKey) throws(KeystoreError) {
        guard key.backend != keystore.backend else { return }
        let isToken = key.backend == "pkcs11"
        throw KeystoreError(
            code: .wrongDevice,
            reason: isToken
                ? "the key ‘\(key.name)’ is on a token, and no token is configured"
                : "the key ‘\(key.name)’ is in the TPM, and a token is configured",
            recovery: isToken
                ? Recovery("‘latchkey token list’ shows the URIs of tokens.", .chooseToken)
                : "Remove the token from the settings: ‘latchkey config list’ shows where it is set."
        )
    }

    /// The key that an argument names, which must not belong to the locker: the locker would fail
    /// without it.
    ///
    /// - Parameter isUsed: Whether the operation uses the key in the configured hardware.
    /// - Throws: ``KeystoreError``: as ``usableKey(_:)`` or ``storedKey(_:)``, and `conflict` for a
    ///   key of an enrolment.
    func ownKey(_ argument: KeyIDArgument, isUsed: Bool = true) async throws(KeystoreError)
        -> StoredKey
    {
        let found = isUsed ? try await usableKey(argument) : try await storedKey(argument)
        guard found.owner != nil else { return found }
        throw KeystoreError(
            code: .conflict,
            reason: "the key \(found.key.id) belongs to the locker",
            recovery:
                "See ‘latchkey locker status’; ‘latchkey locker end --mode destroy’ deletes it with the enrolment."
        )
    }
}

/// A key with the facts of its record.
struct StoredKey {
    let key: HardwareKey
    let generation: Int
    /// The facade that uses the key: the attribute `owner`, `locker` for a key of an enrolment. nil
    /// for a key of the user.
    let owner: String?

    /// - Throws: ``KeystoreError`` with code `damaged` if the record has another ID than its key.
    init(_ key: HardwareKey, _ record: Record) throws(KeystoreError) {
        guard record.id == RecordID(key.id) else {
            throw KeystoreError(
                code: .damaged,
                reason: "the record ‘\(record.id)’ contains the key ‘\(key.id)’",
                recovery:
                    "Nothing was changed. Restore the store from a backup, or delete this key and create a new one."
            )
        }
        (self.key, generation, owner) = (key, record.generation, record.owner)
    }
}

extension Record {
    /// The facade that uses the record's key; nil for a key of the user.
    var owner: String? {
        switch kind {
        case Self.keyKind: attributes["owner"]
        case SSHKeyRecord.kind: KeyReport.sshUse
        case _ where kind.hasPrefix("locker."): "locker"
        default: "login"
        }
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
