internal import Latchkey

extension VaultSlot {
    /// A change that is prepared and not made yet.
    struct Change: Sendable {
        let records: [RecordChange]
        let classes: [ClassChange]
    }

    // MARK: Preparing

    /// Prepares storing without biometrics. It destroys the key of a class that contained the credentials.
    func storingPlain(_ credentials: Credentials, ifGeneration generation: Int) throws(KeystoreError) -> Change {
        let row = try place().row
        return Change(
            records: [row.put(try encode(credentials), in: .device, ifGeneration: generation)],
            classes: [.drop(prefix: row.classes.prefix)])
    }

    /// Prepares a replacement of a value without biometrics. Refuses if another program has put it in place of a value with
    /// biometrics.
    func updatingPlain(_ credentials: Credentials, ifGeneration generation: Int) throws(KeystoreError) -> Change {
        let row = try place().row
        return Change(
            records: [row.put(try encode(credentials), in: .device, ifGeneration: generation)],
            classes: [.expectNone(prefix: row.classes.prefix)])
    }

    /// Prepares storing with biometrics, under a new record key.
    func storingProtected(
        _ credentials: Credentials, in prepared: PreparedClass, ifGeneration generation: Int
    ) throws(KeystoreError) -> Change {
        let row = try place().row
        return Change(
            records: [row.put(try encode(credentials), in: prepared.protection, ifGeneration: generation)],
            classes: [.drop(prefix: row.classes.prefix), .add(prepared)])
    }

    /// Creates the key of a new class that requires user verification. The key is revocable if the hardware has room.
    func newClass(_ operation: String) async throws(KeystoreError) -> PreparedClass {
        let (space, row) = try place()
        guard try await space.records.keystore.capabilities().sealing.contains(space.policy.requirement) else {
            throw .unsupported(
                "\(operation) the vault ‘\(key)’", "this hardware can't enforce the policy ‘\(space.policy)’",
                recovery: "Choose a policy that it can enforce: see ‘latchkey doctor’.")
        }
        return try await space.records.prepare(
            row.classes.newClass(space.policy), revocably: .preferred, for: space.prompt("protect ‘\(key)’"),
            authorizedBy: space.presence)
    }

    // MARK: Making

    /// Makes the change. It opens the space, but no class that requires user verification.
    ///
    /// - Returns: The record as stored, after a check.
    func make(_ change: Change) async throws(KeystoreError) -> Record {
        let (space, _) = try place()
        try await space.open()
        // A class that was locked in the meantime stays locked: this call never prompts.
        let stored = try await conflictsExplained { () throws(KeystoreError) in
            try await space.records.apply(
                change.records, classes: change.classes, for: space.prompt("store ‘\(key)’"),
                authorizedBy: NobodyPresent())
        }
        await revokeDropped(change)
        return try checked(stored)
    }

    /// Makes the change with the classes that are open.
    func makeNow(_ change: Change) throws(KeystoreError) -> Record {
        let (space, _) = try place()
        do throws(KeystoreError) {
            let stored = try space.records.applyNow(change.records, classes: change.classes)
            space.records.finishRevocationsSoon()
            return try checked(stored)
        } catch {
            throw error.code == .conflict ? changed() : error
        }
    }

    /// Revokes the key of a dropped class, so that no copy of the store opens it. If that fails, the next opening of the space
    /// tries again.
    private func revokeDropped(_ change: Change) async {
        guard !change.classes.isEmpty, let space else { return }
        try? await space.records.finishRevocations()
    }

    private func conflictsExplained<R>(
        _ body: () async throws(KeystoreError) -> R
    ) async throws(KeystoreError) -> R {
        do throws(KeystoreError) {
            return try await body()
        } catch {
            throw error.code == .conflict ? changed() : error
        }
    }

    /// Reads the record again and compares it: the store must contain what was written, above all its protection.
    private func checked(_ stored: [Record]) throws(KeystoreError) -> Record {
        let (space, row) = try place()
        guard let stored = stored.first, let found = try space.records.metadataNow(row.id) else { throw changed() }
        guard found.generation > stored.generation || found == stored else {
            throw .damaged("store the vault ‘\(key)’", "the store does not contain what was written")
        }
        return stored
    }

    // MARK: Resetting

    private func resetting(_ row: VaultRow) -> Change {
        Change(records: [.delete(row.id, ifGeneration: nil)], classes: [.drop(prefix: row.classes.prefix)])
    }

    /// Deletes the stored record, readable or not. Uses no hardware and does not prompt.
    func reset() async throws(KeystoreError) -> Vault<Credentials> {
        let (space, row) = try place()
        let change = resetting(row)
        try await space.records.apply(
            change.records, classes: change.classes, for: space.prompt("reset ‘\(key)’"), authorizedBy: NobodyPresent())
        await revokeDropped(change)
        return try emptied()
    }

    /// Deletes the stored record as ``reset()`` does, on the caller's own thread.
    func resetNow() throws(KeystoreError) -> Vault<Credentials> {
        let (space, row) = try place()
        let change = resetting(row)
        try space.records.applyNow(change.records, classes: change.classes)
        space.records.finishRevocationsSoon()
        return try emptied()
    }

    private func emptied() throws(KeystoreError) -> Vault<Credentials> {
        switch vault {
        case .empty, .emptyWithBiometrics: return vault
        case .keychain, .keychainUpgradable, .biometrics, .locked: throw changed()
        }
    }
}
