internal import FoundationEssentials
internal import GRDB

/// Makes changes inside one write transaction. It only computes: hardware and user were used
/// before.
struct RecordTransaction: Sendable {
    let container: String
    /// The opened classes that the changes need, by name.
    let keys: [String: RecordKey]
    let now: Date
    /// The store's reset count when the classes were opened.
    let resetCount: Int

    /// - Returns: The records that were put, as stored.
    func apply(_ changes: [RecordChange], _ classes: [ClassChange], to database: Database) throws
        -> [Record]
    {
        try checkResetCount(in: database)
        let keys = try RevocableKeyChanges(container: container, database)
        // The records first: if another program was faster it changed the records too, and the
        // caller gets that conflict.
        let records = try changes.compactMap { change in try apply(change, to: database) }
        for change in classes { try apply(change, to: database) }
        try keys.record(database)
        return records
    }

    /// - Returns: The record as stored, for a put.
    func apply(_ change: RecordChange, to database: Database) throws -> Record? {
        switch change {
        case .put(let record, let payload, let expected):
            let existing = try RecordRow.fetch(
                database, container: container, id: record.id.rawValue)
            try check(existing, is: expected, id: record.id)
            if payload != nil { try checkClass(of: record, existing) }
            var row = try RecordRow(
                record, container: container, generation: nextGeneration(database),
                createdAt: existing?.createdAt,
                now: now)
            try protect(&row, payload)
            try row.save(database, replacing: existing)
            return Record(
                id: record.id, kind: record.kind, protection: record.protection,
                attributes: record.attributes,
                key: record.key, generation: row.generation,
                createdAt: Date(timeIntervalSince1970: TimeInterval(row.createdAt)),
                updatedAt: Date(timeIntervalSince1970: TimeInterval(row.updatedAt)))
        case .delete(let id, let expected):
            let existing = try RecordRow.fetch(database, container: container, id: id.rawValue)
            try check(existing, is: expected, id: id)
            try existing?.delete(database)
            _ = try nextGeneration(database)
            return nil
        }
    }

    /// - Throws: ``CommonError`` with code `conflict` if the store was started over in the
    ///   meantime.
    func checkResetCount(in database: Database) throws {
        guard try RecordStore.resetCount(in: database) == resetCount else {
            throw CommonError.conflict(
                "the store was archived and emptied in the meantime",
                recovery: "Try again. The store is now empty.")
        }
    }

    func apply(_ change: ClassChange, to database: Database) throws {
        switch change {
        case .add(let prepared):
            if prepared.sealed.isRevocable {
                try RevocationRow.withdraw(prepared.protection.name, container: container, database)
            }
            try RecordKeyRow(
                container: container, name: prepared.protection.name, sealed: prepared.sealed,
                generation: RecordKeyRow.firstGeneration
            ).insert(database)
        case .drop(let prefix):
            try RecordKeyRow.deleteAll(database, container: container, prefix: prefix)
        case .expectNone(let prefix):
            guard try !RecordKeyRow.exists(database, container: container, prefix: prefix) else {
                throw CommonError.damaged(
                    "another program replaced the stored record by one with less protection")
            }
        }
    }

    /// Encrypts the payload and authenticates the row, as its class requires.
    func protect(_ row: inout RecordRow, _ payload: SecretBytes?) throws {
        guard !row.isSelfAuthenticated else { return }
        if let payload {
            row.payload = try key(row.className).seal(payload, header: row.header)
        }
        row.mac = try key(ProtectionClass.device.name).authenticate(row.authenticatedBytes)
    }

    private func key(_ name: String) throws -> RecordKey {
        guard let key = keys[name] else {
            throw CommonError(
                code: .wrongState, reason: "the class ‘\(name)’ is locked",
                recovery: "Unlock the class and try again.")
        }
        return key
    }

    /// A class that requires user verification accepts a record only from the program that created
    /// its key, or in place of a record that opens under it. A key that another program put there
    /// opens no existing record; without this check that program could read the new record.
    private func checkClass(of record: Record, _ existing: RecordRow?) throws {
        let name = record.protection.name
        guard record.protection.policy != .none, try !key(name).isNew else { return }
        guard let existing, existing.className == name, let payload = existing.payload,
            (try? key(name).open(payload, header: existing.header)) != nil
        else {
            throw CommonError.damaged(
                "another program may know the key of the class ‘\(name)’")
        }
    }

    private func check(_ existing: RecordRow?, is expected: Int?, id: RecordID) throws {
        guard let expected, expected != existing?.generation ?? 0 else { return }
        let reason =
            expected == 0
            ? "‘\(id)’ exists already"
            : "‘\(id)’ was \(existing == nil ? "deleted" : "changed") in the meantime"
        throw CommonError.conflict(
            reason, recovery: "Read the stored record, then try again.")
    }

    func nextGeneration(_ database: Database) throws -> Int {
        let statement = try database.cachedStatement(
            sql: """
                INSERT INTO container (name, generation) VALUES (?, 1)
                ON CONFLICT (name) DO UPDATE SET generation = generation + 1 RETURNING generation
                """)
        return try Int.fetchOne(statement, arguments: [container]) ?? 0
    }
}
