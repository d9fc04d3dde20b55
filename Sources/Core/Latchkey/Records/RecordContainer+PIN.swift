internal import FoundationEssentials
internal import GRDB

extension RecordContainer {
    /// Changes the PIN of everything that has the container's PIN: keys and classes together. A
    /// value with its own PIN, such as a locker's easy access, keeps it.
    ///
    /// Prompts once for the old PIN and once for the new one. The new blobs are stored in one
    /// transaction, so after a crash either the old or the new PIN is valid. Revocable values
    /// change in the hardware before that, one after the other: after a crash in between, each of
    /// them opens with one of the two PINs, and the same change again finishes the rest. An older
    /// copy of the store opens revocable values with the new PIN, and all others with the old PIN,
    /// on this hardware only.
    ///
    /// - Returns: The number of keys and classes that have the new PIN.
    /// - Throws: ``CommonError``; `notFound` if nothing in the container has a PIN, `conflict` if
    ///   another process changed one of the keys in the meantime, `wrongProof` also if the keys
    ///   have different PINs.
    @discardableResult
    public func changePIN(
        for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> Int {
        let changed = try await changePIN(of: .container, for: prompt, authorizedBy: presence)
        return changed.keys + changed.classes
    }

    /// Changes the PIN of a part of the container, if its keys have different PINs.
    ///
    /// - Returns: The number of keys, and of protection classes, that have the new PIN.
    @discardableResult
    package func changePIN(
        of scope: PINScope, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> (keys: Int, classes: Int) {
        do throws(CommonError) {
            try store.checkWritable()
            let (name, resetCount) = (name, store.currentResetCount)
            let (rows, classRows) = try await store.read("change the PIN") { database in
                (
                    try RecordRow.fetchAllWithKeys(database, container: name)
                        .filter { !ProtectionClass.hasOwnPIN($0.className) },
                    !scope.includesClasses
                        ? []
                        : try RecordKeyRow.fetchAll(database, container: name)
                            .filter {
                                $0.sealed.policy.hasPIN && !ProtectionClass.hasOwnPIN($0.name)
                            }
                )
            }
            var held: [(row: RecordRow, key: HardwareKey)] = []
            for row in rows {
                let record = try self.record(of: row)
                guard let key = record.key, key.policy.hasPIN, scope.includes(key.id) else {
                    continue
                }
                guard !row.isSelfAuthenticated || record.isBareKey else {
                    throw Self.edited(record.id)
                }
                held.append((row, key))
            }
            guard !(held.isEmpty && classRows.isEmpty) else {
                throw scope.nothing(in: name)
            }
            let isMACed = { (row: RecordRow) in !row.isSelfAuthenticated }
            var recordKeys: [String: RecordKey] = [:]
            if held.contains(where: { isMACed($0.row) }) {
                let device = try await keyring.open(.device, for: prompt, authorizedBy: presence)
                for (row, _) in held where isMACed(row) {
                    guard device.isAuthentic(row.mac, for: row.authenticatedBytes) else {
                        throw .damaged("the record ‘\(row.id)’ was changed by another program")
                    }
                }
                recordKeys[ProtectionClass.device.name] = device
            }
            let changed = try await keystore.changePIN(
                of: held.map(\.key), secrets: classRows.map(\.sealed), for: prompt,
                authorizedBy: presence)
            let transaction = RecordTransaction(
                container: name, keys: recordKeys, now: store.now(), resetCount: resetCount)
            let swaps = zip(held, changed.keys).filter { $0.key != $1 }.map {
                KeySwap(row: $0.row, key: $1)
            }
            try await store.write("store the new PIN") { database in
                try transaction.checkResetCount(in: database)
                for swap in swaps { try transaction.swap(swap, in: database) }
                for (row, sealed) in zip(classRows, changed.secrets) where row.sealed != sealed {
                    try row.replace(database, with: sealed)
                }
            }
            return (held.count, classRows.count)
        } catch {
            throw error.during("change the PIN")
        }
    }
}

extension RecordContainer {
    /// Reads the counter of wrong PINs for the container's keys and classes: the user's own if one
    /// of them has it, otherwise the hardware's. Does not prompt.
    public func pinStatus() async throws(CommonError) -> PINStatus {
        if let own = try await userPINStatus() { return own }
        return try await keystore.pinStatus()
    }

    /// Reads the user's own counter of wrong PINs; nil if no key and no class of the container has
    /// one. Does not prompt.
    ///
    /// - Throws: ``CommonError`` with code `invalidated` if the PIN of all of them was removed. Of
    ///   keys with a removed PIN and keys with the present one, the present one counts.
    package func userPINStatus() async throws(CommonError) -> PINStatus? {
        let (rows, classRows) = try await keyRows()
        var subjects: [PINSubject] = []
        for row in rows {
            guard let key = try record(of: row).key, key.assurance.pinProtection == .user else {
                continue
            }
            subjects.append(.key(key))
        }
        subjects += classRows.map(\.sealed).filter { $0.assurance.pinProtection == .user }
            .map { .secret($0) }
        var removal: CommonError?
        for subject in subjects {
            do throws(CommonError) {
                return try await keystore.pinStatus(of: subject)
            } catch {
                guard error.code == .invalidated else { throw error }
                removal = removal ?? error
            }
        }
        if let removal { throw removal }
        return nil
    }

    /// Whether the user's one PIN opens all that ``changePIN(for:authorizedBy:)`` changes, so that
    /// no two PINs can differ. Does not prompt.
    package func hasOnlyUserPIN() async throws(CommonError) -> Bool {
        let (rows, classRows) = try await keyRows()
        for row in rows where !ProtectionClass.hasOwnPIN(row.className) {
            guard let key = try record(of: row).key, key.policy.hasPIN else { continue }
            guard key.assurance.pinProtection == .user else { return false }
        }
        return classRows.allSatisfy { row in
            !row.sealed.policy.hasPIN || ProtectionClass.hasOwnPIN(row.name)
                || row.sealed.assurance.pinProtection == .user
        }
    }

    private func keyRows() async throws(CommonError) -> ([RecordRow], [RecordKeyRow]) {
        let name = name
        return try await store.read("read the container's keys") { database in
            (
                try RecordRow.fetchAllWithKeys(database, container: name),
                try RecordKeyRow.fetchAll(database, container: name)
            )
        }
    }
}

/// A row and the key that replaces the one in it.
private struct KeySwap: Sendable {
    let row: RecordRow
    let key: HardwareKey
}

extension RecordTransaction {
    fileprivate func swap(_ swap: KeySwap, in database: Database) throws {
        guard swap.row.payload == nil else {
            throw CommonError.unsupported(
                "the record ‘\(swap.row.id)’ has a key and a payload",
                recovery: "Report this as a bug in Latchkey.")
        }
        let existing = try RecordRow.fetch(database, container: container, id: swap.row.id)
        guard existing?.generation == swap.row.generation else {
            throw CommonError.conflict("another process changed ‘\(swap.row.id)’ in the meantime")
        }
        var record = try swap.row.record()
        record.key = swap.key
        var row = try RecordRow(
            record, container: container, generation: nextGeneration(database),
            createdAt: swap.row.createdAt, now: now)
        try protect(&row, nil)
        try row.save(database, replacing: existing)
    }
}

/// The keys and classes whose PIN changes.
package enum PINScope: Sendable {
    /// All keys and classes that have the container's PIN.
    case container
    /// One key.
    case key(KeyID)
    /// The protection classes, as of vaults and credentials.
    case classes

    func includes(_ key: KeyID) -> Bool {
        switch self {
        case .container: true
        case .key(let one): one == key
        case .classes: false
        }
    }

    /// The error if nothing in this part of a container has a PIN.
    func nothing(in container: String) -> CommonError {
        switch self {
        case .container, .key:
            .notFound(
                "the container ‘\(container)’ has no key, vault or credential with a PIN",
                recovery: "Create a key with the policy ‘pin’ first.")
        case .classes:
            .notFound(
                "the container ‘\(container)’ has no vault or credential with a PIN",
                recovery: Recovery(
                    "Store a vault or credential with a PIN first.", .storeVaultWithPIN))
        }
    }

    var includesClasses: Bool {
        switch self {
        case .container, .classes: true
        case .key: false
        }
    }
}
