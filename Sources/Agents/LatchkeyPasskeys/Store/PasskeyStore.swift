package import FoundationEssentials
package import Latchkey

/// The passkeys of a record container.
///
/// Names of sites and accounts and the wrapped keys are encrypted payloads; a row shows only its
/// random ID. Opening the container's device class needs the hardware once; after that all calls
/// use memory and disk only, and do not prompt.
package struct PasskeyStore: Sendable {
    /// The kind of the records.
    package static let kind = "passkey"
    /// The maximum number of passkeys.
    package static let maximumCount = 1000
    private static let prefix = "passkey."

    private let records: RecordContainer
    private let reportDamage: @Sendable (KeystoreError) -> Void

    /// - Parameter reportDamage: Called for each row that ``list()`` skips.
    package init(
        records: RecordContainer,
        reportDamage: @escaping @Sendable (KeystoreError) -> Void = { _ in }
    ) {
        self.records = records
        self.reportDamage = reportDamage
    }

    /// Opens the store. Does not prompt, unless the hardware cannot seal without user verification.
    package func open(authorizedBy presence: any PresenceAuthority = NobodyPresent())
        async throws(KeystoreError)
    {
        try await records.open(.device, for: prompt("open the passkeys"), authorizedBy: presence)
    }

    /// The readable passkeys, oldest first. A row that another program changed, or that a newer
    /// version wrote, is reported and skipped.
    ///
    /// - Throws: `KeystoreError`; `wrongState` if the store is not open.
    package func list() throws(KeystoreError) -> [Passkey] {
        let (passkeys, unreadable) = try read()
        for (id, error) in unreadable {
            let name = String(oneLine: Self.credentialID(id) ?? id.rawValue, limit: 64)
            reportDamage(
                error.code == .damaged
                    ? error.with(
                        recovery: Recovery("Delete the passkey \(name).", .deletePasskey)) : error)
        }
        return passkeys
    }

    /// The credential IDs of the damaged rows, in base64url.
    package func damagedIDs() throws(KeystoreError) -> [String] {
        try read().unreadable.filter { $0.error.code == .damaged }
            .compactMap { Self.credentialID($0.id) }
    }

    private func read() throws(KeystoreError) -> (
        passkeys: [Passkey], unreadable: [(id: RecordID, error: KeystoreError)]
    ) {
        var passkeys: [Passkey] = []
        var unreadable: [(id: RecordID, error: KeystoreError)] = []
        for id in try records.idsNow(Self.kind) {
            do throws(KeystoreError) {
                if let passkey = try passkey(id) { passkeys.append(passkey) }
            } catch {
                guard [.damaged, .unsupported].contains(error.code) else { throw error }
                unreadable.append((id, error))
            }
        }
        return (passkeys, unreadable)
    }

    /// The number of stored passkeys, readable or not.
    package func count() throws(KeystoreError) -> Int { try records.idsNow(Self.kind).count }

    /// Finds the one passkey with the credential ID `text` in base64url, or with the label `text`, or
    /// whose ID begins with `text`, in this order.
    ///
    /// - Throws: `KeystoreError`; `notFound`, `conflict` if there are several.
    package func passkey(named text: String) throws(KeystoreError) -> Passkey {
        let all = try list()
        let names: [(Passkey) -> Bool] = [
            { Base64URL.encode($0.id) == text }, { $0.label == text },
            { Base64URL.encode($0.id).hasPrefix(text) },
        ]
        let found = names.lazy.map { all.filter($0) }.first { !$0.isEmpty } ?? []
        guard let first = found.first else {
            throw KeystoreError.notFound(
                "there is no passkey ‘\(String(oneLine: text, limit: 64))’",
                recovery: Recovery("List the passkeys.", .listPasskeys))
        }
        guard found.count == 1 else {
            throw KeystoreError.conflict(
                "\(found.count) passkeys match ‘\(String(oneLine: text, limit: 64))’",
                recovery: "Name a longer ID.")
        }
        return first
    }

    /// Stores a new passkey durably. In the same transaction it removes the earlier ones that the
    /// new one replaces.
    ///
    /// - Returns: The removed passkeys. A key on a token still exists: delete it with
    ///   ``Keystore/delete(_:)``.
    @discardableResult
    package func add(_ passkey: Passkey) throws(KeystoreError) -> [Passkey] {
        let earlier = try list().filter(passkey.replaces)
        try put(passkey, ifGeneration: 0, alsoDeleting: earlier.map(\.id))
        return earlier
    }

    /// Changes the user's own name for a passkey; nil removes it.
    ///
    /// - Parameter label: As ``KeyRequest/label``. No other passkey may have it.
    /// - Throws: `KeystoreError`; `invalidInput` for a label that is not valid; `conflict` for that of
    ///   another passkey, or if another program changed the passkey at the same time.
    package func rename(_ id: Data, to label: String?) throws(KeystoreError) {
        try KeyRequest.check(label: label)
        let name = Self.recordID(id)
        guard let (record, payload) = try records.readNow(name) else { throw Self.missing }
        var passkey = try Self.passkey(record, payload)
        passkey.label = label
        try put(passkey, ifGeneration: record.generation, alsoDeleting: []) {
            (records) throws(KeystoreError) in
            guard let label else { return }
            for (record, payload) in try records.readable(Self.kind)
            where record.id != name
                && (try? Self.passkey(record, payload))?.label == label
            {
                throw KeystoreError.conflict(
                    "another passkey has the label ‘\(label)’",
                    recovery: Recovery(
                        "Choose another label, or list the passkeys.", .listPasskeys))
            }
        }
    }

    /// Deletes passkeys. The TPM holds no part of them; the caller deletes keys on a token with
    /// ``Keystore/delete(_:)``.
    package func delete(_ ids: [Data]) throws(KeystoreError) {
        try records.applyNow(ids.map { .delete(Self.recordID($0), ifGeneration: nil) })
    }

    /// Deletes damaged rows by their IDs of ``damagedIDs()``. Keys on a token stay there.
    package func delete(damaged ids: [String]) throws(KeystoreError) {
        try records.applyNow(
            ids.map { .delete(RecordID(rawValue: Self.prefix + $0), ifGeneration: nil) })
    }

    private func put(
        _ passkey: Passkey, ifGeneration generation: Int, alsoDeleting ids: [Data],
        if condition: RecordCondition? = nil
    ) throws(KeystoreError) {
        let payload: Data
        do {
            payload = try JSONEncoder().encode(passkey)
        } catch {
            throw KeystoreError.invalidInput("the passkey cannot be encoded: \(error)")
        }
        let record = Record(id: Self.recordID(passkey.id), kind: Self.kind)
        try records.applyNow(
            [.put(record, payload: SecretBytes(payload), ifGeneration: generation)]
                + ids.map { .delete(Self.recordID($0), ifGeneration: nil) }, if: condition)
    }

    private func passkey(_ id: RecordID) throws(KeystoreError) -> Passkey? {
        guard let (record, payload) = try records.readNow(id) else { return nil }
        return try Self.passkey(record, payload)
    }

    private static func passkey(
        _ record: Record, _ payload: SecretBytes?
    ) throws(KeystoreError) -> Passkey {
        let damaged = KeystoreError.damaged("the record ‘\(record.id)’ is not a passkey")
            .during("read a passkey")
        guard record.kind == kind, record.protection == .device, let payload else { throw damaged }
        // The payload is authentic: this program's user stored it, with another version.
        guard
            let passkey = payload.withUnsafeBytes({
                try? JSONDecoder().decode(Passkey.self, from: Data($0))
            })
        else {
            throw KeystoreError.unsupported(
                "a newer version of Latchkey wrote the passkey ‘\(record.id)’",
                recovery: "Install that version."
            ).during("read a passkey")
        }
        guard recordID(passkey.id) == record.id else { throw damaged }
        return passkey
    }

    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: records.name)
    }

    /// The credential ID in base64url, which a record's ID contains; nil for another record's ID.
    private static func credentialID(_ id: RecordID) -> String? {
        id.rawValue.hasPrefix(prefix) ? String(id.rawValue.dropFirst(prefix.count)) : nil
    }

    private static func recordID(_ id: Data) -> RecordID {
        RecordID(rawValue: prefix + Base64URL.encode(id))
    }

    private static var missing: KeystoreError {
        .notFound(
            "there is no such passkey", recovery: Recovery("List the passkeys.", .listPasskeys))
    }
}
