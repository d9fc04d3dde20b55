internal import FoundationEssentials
internal import GRDB

extension RecordContainer {
    /// Changes the PIN of everything in the container that has one: keys and classes together. What has a PIN of its own, as
    /// a locker's easy access, keeps it.
    ///
    /// The old PIN is asked for once and the new one once. The new blobs are stored in one transaction: a crash leaves
    /// the old PIN or the new one, never neither. What is revocable is changed in the hardware before that, one after the
    /// other: after a crash in between each still opens with one of the two, and the same change, made again, is carried
    /// to its end. A copy of the store from before opens with the new PIN then; whatever else a copy has still opens with
    /// the old PIN, on this hardware only.
    ///
    /// - Returns: How many keys and classes have the new PIN.
    /// - Throws: ``KeystoreError``; `notFound` when nothing in the container has a PIN, `conflict` when another process
    ///   changed one of the keys meanwhile, `wrongProof` also where keys were made with different PINs.
    @discardableResult
    public func changePIN(
        for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Int {
        try await changePIN(of: .container, for: prompt, authorizedBy: presence)
    }

    /// The same for a part of the container, where its keys have different PINs.
    @discardableResult
    package func changePIN(
        of scope: PINScope, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Int {
        let name = name
        let (rows, classRows) = try await store.read("change the PIN") { database in
            (
                try RecordRow.fetchAllWithKeys(database, container: name)
                    .filter { !ProtectionClass.hasOwnPIN($0.className) },
                !scope.includesClasses
                    ? []
                    : try ClassRow.fetchAll(database, container: name)
                        .filter { $0.sealed.policy.hasPIN && !ProtectionClass.hasOwnPIN($0.name) }
            )
        }
        var held: [(row: RecordRow, key: HardwareKey)] = []
        for row in rows {
            let record = try Self.record(of: row)
            guard let key = record.key, key.policy.hasPIN, scope.includes(key.id) else { continue }
            guard !row.isSelfAuthenticated || record.isBareKey else { throw Self.edited(record.id) }
            held.append((row, key))
        }
        guard !(held.isEmpty && classRows.isEmpty) else {
            throw .notFound(
                "change the PIN", "nothing in the container ‘\(name)’ has the container's PIN",
                recovery: "Make a key with the policy ‘pin’ first.")
        }
        let isMACed = { (row: RecordRow) in !row.isSelfAuthenticated }
        var classKeys: [String: ClassKey] = [:]
        if held.contains(where: { isMACed($0.row) }) {
            let device = try await classes.open(.device, for: prompt, authorizedBy: presence)
            for (row, _) in held where isMACed(row) {
                guard device.isAuthentic(row.mac, for: row.authenticatedBytes) else {
                    throw .damaged("change the PIN", "the record ‘\(row.id)’ is not what was stored")
                }
            }
            classKeys[ProtectionClass.device.name] = device
        }
        let changed = try await keystore.changePIN(
            of: held.map(\.key), secrets: classRows.map(\.sealed), for: prompt, authorizedBy: presence)
        let transaction = RecordTransaction(container: name, keys: classKeys, now: store.now())
        let swaps = zip(held, changed.keys).filter { $0.key != $1 }.map { KeySwap(row: $0.row, key: $1) }
        try await store.write("store the new PIN") { database in
            for swap in swaps { try transaction.swap(swap, in: database) }
            for (row, sealed) in zip(classRows, changed.secrets) where row.sealed != sealed {
                try row.replace(database, with: sealed)
            }
        }
        return held.count + classRows.count
    }
}

extension RecordContainer {
    /// The state of what counts wrong PINs of the container's keys and classes: the user's own count where one of them
    /// has it, else the hardware's guard. Needs no presence.
    public func pinStatus() async throws(KeystoreError) -> PINStatus {
        if let own = try await userPINStatus() { return own }
        return try await keystore.pinStatus()
    }

    /// The state of the user's own count of wrong PINs; nil where no key and no class of the container has one. Needs no
    /// presence.
    public func userPINStatus() async throws(KeystoreError) -> PINStatus? {
        let name = name
        let (rows, classRows) = try await store.read("look at the container's keys") { database in
            (
                try RecordRow.fetchAllWithKeys(database, container: name),
                try ClassRow.fetchAll(database, container: name)
            )
        }
        for row in rows {
            guard let key = try Self.record(of: row).key, key.assurance.pinProtection == .user else { continue }
            return try await keystore.pinStatus(of: key)
        }
        for row in classRows where row.sealed.assurance.pinProtection == .user {
            return try await keystore.pinStatus(of: row.sealed)
        }
        return nil
    }
}

/// A row and the key that is to stand in it.
private struct KeySwap: Sendable {
    let row: RecordRow
    let key: HardwareKey
}

extension RecordTransaction {
    fileprivate func swap(_ swap: KeySwap, in database: Database) throws {
        guard swap.row.payload == nil else {
            throw KeystoreError.unsupported(
                "change the PIN", "the record ‘\(swap.row.id)’ has a key and a payload", recovery: "Report this.")
        }
        let standing = try RecordRow.fetch(database, container: container, id: swap.row.id)
        guard standing?.generation == swap.row.generation else {
            throw KeystoreError.conflict("change the PIN", "another process changed ‘\(swap.row.id)’ meanwhile")
        }
        var record = try swap.row.record()
        record.key = swap.key
        var row = try RecordRow(
            record, container: container, generation: nextGeneration(database), createdAt: swap.row.createdAt, now: now)
        try protect(&row, nil)
        try row.save(database, replacing: standing)
    }
}
