internal import GRDB

extension RecordContainer {
    /// Makes all the changes of records and classes in one durable transaction, or none.
    ///
    /// - Throws: As ``apply(_:for:authorizedBy:)``; the error of the condition.
    @discardableResult
    package func apply(
        _ changes: [RecordChange], classes classChanges: [ClassChange] = [],
        if condition: RecordCondition? = nil, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority = NobodyPresent()
    ) async throws(CommonError) -> [Record] {
        do throws(CommonError) {
            var changedClasses = classChanges
            if changes.contains(where: \.isPut) { try store.checkWritable() }
            for case .put(let record, let payload, _) in changes {
                try Self.check(record, payload)
                for protection in Self.classes(for: record, payload)
                where !changedClasses.adds(protection.name) {
                    let made = try await keyring.openOrPrepare(
                        protection, for: prompt, authorizedBy: presence)
                    if let made { changedClasses.append(.add(made)) }
                }
            }
            let (transaction, all) = (try transaction(changes, changedClasses), changedClasses)
            let records = try await store.write("store the records") { database in
                try condition?(RecordSnapshot(self, in: database))
                return try transaction.apply(changes, all, to: database)
            }
            finish(all)
            return records
        } catch {
            throw error.during("store the records")
        }
    }

    /// Creates a class that is not stored yet: store it with
    /// ``apply(_:classes:for:authorizedBy:)``. If the policy includes a PIN, `presence` prompts for
    /// the container's; or for a new one, if the container has none or the class has its own.
    ///
    /// - Parameter revocably: Whether to create a revocable class. ``finishRevocations()`` revokes
    ///   such a class if it is never stored. ``areRevocable(_:)`` says whether it is revocable.
    package func prepare(
        _ protection: ProtectionClass, revocably: Revocability = .never, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> PreparedClass {
        do throws(CommonError) {
            try store.checkWritable()
            return try await keyring.prepare(
                protection, revocably: revocably, for: prompt, authorizedBy: presence)
        } catch {
            throw error.during("protect the records")
        }
    }

    /// Whether every stored class of these families is revocable. Does not use the hardware, and
    /// verifies nothing.
    package func areRevocable(_ families: [ClassFamily]) async throws(CommonError) -> Bool {
        let name = name
        let prefixes = families.map(\.prefix)
        return try await store.read("read the classes") { database in
            try RecordKeyRow.fetchAll(database, container: name)
                .filter { row in prefixes.contains { row.name.hasPrefix($0) } }
                .allSatisfy(\.sealed.isRevocable)
        }
    }

    /// Revokes all revocable keys that are in no record any more, the keys of dropped classes, and
    /// values that were created and never stored. It skips values that a program is creating now. A
    /// revocation that fails stays recorded for the next call. Call it when a program starts, and
    /// after a deletion.
    ///
    /// - Throws: ``CommonError``: the first error, after all other revocations.
    public func finishRevocations() async throws(CommonError) {
        do throws(CommonError) {
            try await keyring.finishRevocations()
        } catch {
            throw error.during("revoke keys")
        }
    }

    /// Starts ``finishRevocations()`` in a task if a revocation is recorded, for calls that may not
    /// wait for the hardware. A revocation that fails, or that the program's end interrupts, stays
    /// recorded.
    package func finishRevocationsSoon() {
        guard (try? keyring.hasRevocationsNow()) ?? false else { return }
        Task { try? await finishRevocations() }
    }

    /// Verifies that the user can open the class, and leaves it locked. Accepts no earlier proof.
    /// If the hardware can, first lifts a lockout with a stronger proof. Opening the class within
    /// the next minute does not prompt again.
    package func prove(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) {
        do throws(CommonError) {
            try await keyring.prove(protection, for: prompt, authorizedBy: presence)
        } catch {
            throw error.during("open \(protection.words)")
        }
    }

    /// The session of the class, if it is open.
    package func session(_ protection: ProtectionClass) -> ClassSession? {
        keyring.session(protection.name)
    }

    /// Whether the record is in the device class while a class of its family is stored. Latchkey
    /// never writes that: an attacker who can write the file has replaced a protected record.
    package func isDowngraded(_ id: RecordID, from family: ClassFamily) throws(CommonError)
        -> Bool
    {
        try store.readNow("read the record ‘\(id)’") { database in
            try RecordRow.exists(
                database, container: name, id: id.rawValue, class: ProtectionClass.device.name)
                && RecordKeyRow.exists(database, container: name, prefix: family.prefix)
        }
    }

    /// Discards the keys of the classes whose names have this prefix, and closes their sessions. An
    /// earlier proof may still open them if their policy allows reuse: if the user locks, call
    /// ``Keystore/endReuse()`` too.
    package func lock(prefix: String) {
        keyring.lock(prefix: prefix)
    }

    // MARK: Transactions

    /// Creates the transaction for the changes, with the keys that are in memory.
    func transaction(
        _ changes: [RecordChange], _ changedClasses: [ClassChange]
    ) throws(CommonError) -> RecordTransaction {
        let resetCount = store.currentResetCount
        var keys: [String: RecordKey] = [:]
        for case .put(let record, let payload, _) in changes {
            try Self.check(record, payload)
            for protection in Self.classes(for: record, payload) {
                keys[protection.name] =
                    changedClasses.added(protection.name)?.opened
                    ?? keyring.session(protection.name)?.opened
            }
        }
        return RecordTransaction(
            container: name, keys: keys, now: store.now(), resetCount: resetCount)
    }

    /// Applies a committed transaction to the keys in memory.
    func finish(_ changedClasses: [ClassChange]) {
        let added = changedClasses.compactMap { change in
            if case .add(let prepared) = change { prepared } else { nil }
        }
        for case .drop(let prefix) in changedClasses {
            keyring.lock(prefix: prefix, sparing: added.map(\.session))
        }
        for prepared in added { keyring.adopt(prepared) }
    }

    /// The classes whose keys are needed to write the record.
    private static func classes(for record: Record, _ payload: SecretBytes?) -> [ProtectionClass] {
        guard !ProtectionClass.isSelfAuthenticated(record.protection.name) else { return [] }
        return payload == nil ? [.device] : [.device, record.protection]
    }
}

extension RecordChange {
    fileprivate var isPut: Bool { if case .put = self { true } else { false } }
}

extension [ClassChange] {
    /// The session of the class of that name, if one is added.
    fileprivate func added(_ name: String) -> ClassSession? {
        for case .add(let prepared) in self where prepared.protection.name == name {
            return prepared.session
        }
        return nil
    }

    fileprivate func adds(_ name: String) -> Bool { added(name) != nil }
}

extension RecordContainer {
    /// Whether a dropped value still waits for revocation, because the hardware could not revoke it
    /// at the time. Until ``finishRevocations()`` succeeds, a copy of the store opens it. Does not
    /// use the hardware.
    package var hasPendingRevocations: Bool {
        get async throws(CommonError) {
            let name = name
            return try await store.read("read the pending revocations") { database in
                try Bool.fetchOne(
                    database,
                    sql: "SELECT EXISTS (SELECT 1 FROM revocation WHERE container = ? AND isDue)",
                    arguments: [name]) ?? false
            }
        }
    }
}
