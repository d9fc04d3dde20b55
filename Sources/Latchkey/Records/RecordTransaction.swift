internal import FoundationEssentials
internal import GRDB

/// Carries out changes inside one write transaction. Pure computing: hardware and people were asked before.
struct RecordTransaction: Sendable {
    let container: String
    /// The opened classes that the changes need, by name.
    let keys: [String: ClassKey]
    let now: Date

    /// - Returns: The records that were put, as stored.
    func apply(_ changes: [RecordChange], _ classes: [ClassChange], to database: Database) throws -> [Record] {
        let keys = try RevocableKeyChanges(container: container, database)
        // The records first: who has overtaken us changed them too, and that is what the caller must hear of.
        let records = try changes.compactMap { change in try apply(change, to: database) }
        for change in classes { try apply(change, to: database) }
        try keys.note(database)
        return records
    }

    /// - Returns: The record as stored, for a put.
    func apply(_ change: RecordChange, to database: Database) throws -> Record? {
        switch change {
        case .put(let record, let payload, let expected):
            let standing = try RecordRow.fetch(database, container: container, id: record.id.rawValue)
            try check(standing, expected, record.id)
            if payload != nil { try checkClass(of: record, standing) }
            var row = try RecordRow(
                record, container: container, generation: nextGeneration(database), createdAt: standing?.createdAt,
                now: now)
            try protect(&row, payload)
            try row.save(database, replacing: standing)
            return try row.record()
        case .delete(let id, let expected):
            let standing = try RecordRow.fetch(database, container: container, id: id.rawValue)
            try check(standing, expected, id)
            try standing?.delete(database)
            _ = try nextGeneration(database)
            return nil
        }
    }

    func apply(_ change: ClassChange, to database: Database) throws {
        switch change {
        case .add(let prepared):
            if prepared.sealed.isRevocable {
                try RevocationRow.withdraw(prepared.protection.name, container: container, database)
            }
            try ClassRow(
                container: container, name: prepared.protection.name, sealed: prepared.sealed,
                generation: ClassRow.firstGeneration
            ).insert(database)
        case .drop(let prefix):
            try ClassRow.deleteAll(database, container: container, prefix: prefix)
        case .expectNone(let prefix):
            guard try !ClassRow.exists(database, container: container, prefix: prefix) else {
                throw KeystoreError.damaged(
                    "store the records", "what is stored was not stored by Latchkey: it is less protected than it was")
            }
        }
    }

    /// Encrypts the payload and authenticates the row, as its class wants.
    func protect(_ row: inout RecordRow, _ payload: SecretBytes?) throws {
        guard !row.isSelfAuthenticated else { return }
        if let payload {
            row.payload = try key(row.className).seal(payload, header: row.header)
        }
        row.mac = try key(ProtectionClass.device.name).authenticate(row.authenticatedBytes)
    }

    private func key(_ name: String) throws -> ClassKey {
        guard let key = keys[name] else {
            throw KeystoreError(
                operation: "store the records", code: .wrongState, reason: "the class ‘\(name)’ is locked",
                recovery: "Unlock it and try again.")
        }
        return key
    }

    /// A class for which somebody has to be present takes a record only from the program that has made its key, or in
    /// place of a record that opens under it. A key that was put there by somebody else opens nothing that stands; without
    /// this, what is stored next would be theirs to read.
    private func checkClass(of record: Record, _ standing: RecordRow?) throws {
        let name = record.protection.name
        guard record.protection.policy != .none, try !key(name).isNew else { return }
        guard let standing, standing.className == name, let payload = standing.payload,
            (try? key(name).open(payload, header: standing.header)) != nil
        else {
            throw KeystoreError.damaged(
                "store the record ‘\(record.id)’",
                "nothing shows that the key of the class ‘\(name)’ is not somebody else's")
        }
    }

    private func check(_ standing: RecordRow?, _ expected: Int?, _ id: RecordID) throws {
        guard let expected, expected != standing?.generation ?? 0 else { return }
        let reason =
            expected == 0
            ? "‘\(id)’ is there already"
            : "‘\(id)’ was \(standing == nil ? "deleted" : "changed") meanwhile"
        throw KeystoreError.conflict(
            "store the records", reason, recovery: "Look at what is there now, then try again.")
    }

    func nextGeneration(_ database: Database) throws -> Int {
        try Int.fetchOne(
            database,
            sql: """
                INSERT INTO container (name, generation) VALUES (?, 1)
                ON CONFLICT (name) DO UPDATE SET generation = generation + 1 RETURNING generation
                """,
            arguments: [container]) ?? 0
    }
}
