extension RecordContainer {
    /// Makes all the changes of records and classes in one durable transaction, or none.
    @discardableResult
    package func apply(
        _ changes: [RecordChange], classes classChanges: [ClassChange], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> [Record] {
        var changedClasses = classChanges
        for case .put(let record, let payload, _) in changes {
            try Self.check(record, payload)
            for protection in Self.classes(for: record, payload) where !changedClasses.adds(protection.name) {
                let made = try await classes.openOrPrepare(protection, for: prompt, authorizedBy: presence)
                if let made { changedClasses.append(.add(made)) }
            }
        }
        let (transaction, all) = (try transaction(changes, changedClasses), changedClasses)
        let records = try await store.write("store the records") { database in
            try transaction.apply(changes, all, to: database)
        }
        finish(all)
        return records
    }

    /// Makes a new class that is not stored yet: store it with ``apply(_:classes:for:authorizedBy:)``. Where the policy
    /// has a PIN, `presence` is asked for the container's, or for a new one where it has none or the class has its own.
    ///
    /// - Parameter revocably: Whether the hardware shall be able to revoke the class. Such a class that is not stored in the
    ///   end is given up by ``finishRevocations()``. ``areRevocable(_:)`` says whether it can.
    package func prepare(
        _ protection: ProtectionClass, revocably: Revocability = .never, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PreparedClass {
        try await classes.prepare(protection, revocably: revocably, for: prompt, authorizedBy: presence)
    }

    /// Whether the hardware can take back every class of these families that is stored. Needs no hardware, and verifies
    /// nothing.
    package func areRevocable(_ families: [ClassFamily]) async throws(KeystoreError) -> Bool {
        let name = name
        let prefixes = families.map(\.prefix)
        return try await store.read("look at the classes") { database in
            try ClassRow.fetchAll(database, container: name)
                .filter { row in prefixes.contains { row.name.hasPrefix($0) } }
                .allSatisfy(\.sealed.isRevocable)
        }
    }

    /// Has the hardware take back all revocable keys that are in no record any more, those of classes that were dropped, and
    /// what was made and never stored. What is being made now, by whatever program, is left alone. What can't be done now
    /// stays noted for the next call: call it at the start of a program, and after such a deletion.
    ///
    /// - Throws: ``KeystoreError``, the first one, after everything else was done.
    public func finishRevocations() async throws(KeystoreError) {
        try await classes.finishRevocations()
    }

    /// ``finishRevocations()`` soon, where anything is noted: for calls that may not wait for the hardware. What can't be
    /// done then, or is cut short by the program's end, stays noted.
    package func finishRevocationsSoon() {
        guard (try? classes.hasRevocationsNow()) ?? false else { return }
        Task { try? await finishRevocations() }
    }

    /// Has somebody prove that they can open the class, which stays locked: no proof that was given earlier serves. The
    /// next opening within a minute asks for no second proof.
    package func prove(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await classes.prove(protection, for: prompt, authorizedBy: FreshPresence(presence))
    }

    /// The session of the class, if it is open.
    package func session(_ protection: ProtectionClass) -> ClassSession? {
        classes.session(protection.name)
    }

    /// Whether the record is under the device class while a class of its family is stored. No change of ours leaves that:
    /// it is what somebody leaves who may write the file and has put another record in the place of a protected one.
    package func isDowngraded(_ id: RecordID, from family: ClassFamily) throws(KeystoreError) -> Bool {
        try store.readNow("read the record ‘\(id)’") { database in
            try RecordRow.exists(
                database, container: name, id: id.rawValue, class: ProtectionClass.device.name)
                && ClassRow.exists(database, container: name, prefix: family.prefix)
        }
    }

    /// Forgets the keys of the classes whose names begin so. What was opened with them stops opening at once. A proof may
    /// still serve where a policy lets it: where it is a person who locks, call ``Keystore/endReuse()`` as well.
    package func lock(prefix: String) {
        classes.lock(prefix: prefix)
    }

    // MARK: For all ways to write

    /// The transaction that the changes need, with keys that are in memory.
    func transaction(
        _ changes: [RecordChange], _ changedClasses: [ClassChange]
    ) throws(KeystoreError) -> RecordTransaction {
        var keys: [String: ClassKey] = [:]
        for case .put(let record, let payload, _) in changes {
            try Self.check(record, payload)
            for protection in Self.classes(for: record, payload) {
                keys[protection.name] =
                    changedClasses.added(protection.name)?.opened ?? classes.session(protection.name)?.opened
            }
        }
        return RecordTransaction(container: name, keys: keys, now: store.now())
    }

    /// Does in memory what the transaction did on disk.
    func finish(_ changedClasses: [ClassChange]) {
        let added = changedClasses.compactMap { change in if case .add(let prepared) = change { prepared } else { nil }
        }
        for case .drop(let prefix) in changedClasses { classes.lock(prefix: prefix, sparing: added.map(\.session)) }
        for prepared in added { classes.adopt(prepared) }
    }

    /// The classes whose keys it takes to write the record.
    private static func classes(for record: Record, _ payload: SecretBytes?) -> [ProtectionClass] {
        guard !ProtectionClass.isSelfAuthenticated(record.protection.name) else { return [] }
        return payload == nil ? [.device] : [.device, record.protection]
    }
}

extension [ClassChange] {
    /// The session of the class of that name, if one is added.
    fileprivate func added(_ name: String) -> ClassSession? {
        for case .add(let prepared) in self where prepared.protection.name == name { return prepared.session }
        return nil
    }

    fileprivate func adds(_ name: String) -> Bool { added(name) != nil }
}
