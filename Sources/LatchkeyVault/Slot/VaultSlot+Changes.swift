internal import Latchkey

extension VaultSlot {
    /// A change that is worked out and not made yet.
    struct Change: Sendable {
        let records: [RecordChange]
        let classes: [ClassChange]
    }

    // MARK: Working out

    /// Stores without biometrics. The key of a class that the credentials were in is destroyed.
    func storingPlain(_ credentials: Credentials, ifGeneration generation: Int) throws(KeystoreError) -> Change {
        let row = try place().row
        return Change(
            records: [row.put(try encode(credentials), in: .device, ifGeneration: generation)],
            classes: [.drop(prefix: row.classes.prefix)])
    }

    /// Replaces what is stored without biometrics, unless somebody has put that in the place of what was stored with.
    func updatingPlain(_ credentials: Credentials, ifGeneration generation: Int) throws(KeystoreError) -> Change {
        let row = try place().row
        return Change(
            records: [row.put(try encode(credentials), in: .device, ifGeneration: generation)],
            classes: [.expectNone(prefix: row.classes.prefix)])
    }

    /// Stores with biometrics, under a new class key.
    func storingGated(
        _ credentials: Credentials, in prepared: PreparedClass, ifGeneration generation: Int
    ) throws(KeystoreError) -> Change {
        let row = try place().row
        return Change(
            records: [row.put(try encode(credentials), in: prepared.protection, ifGeneration: generation)],
            classes: [.drop(prefix: row.classes.prefix), .add(prepared)])
    }

    /// Has the hardware make the key of a new class, which only somebody who is present can open, and which it can take back
    /// where it has room for that.
    func newClass(_ operation: String) async throws(KeystoreError) -> PreparedClass {
        let (space, row) = try place()
        guard try await space.records.keystore.capabilities().sealing.contains(space.policy.requirement) else {
            throw .unsupported(
                "\(operation) the vault ‘\(key)’", "this hardware can't enforce the policy ‘\(space.policy)’",
                recovery: "Use a policy that it can enforce: see ‘latchkey doctor’.")
        }
        return try await space.records.prepare(
            row.classes.newClass(space.policy), revocably: .preferred, for: space.prompt("protect ‘\(key)’"),
            authorizedBy: space.presence)
    }

    // MARK: Making

    /// Makes the change, opening what needs nobody to be present.
    ///
    /// - Returns: The record as stored, which has been looked at again.
    func make(_ change: Change) async throws(KeystoreError) -> Record {
        let (space, _) = try place()
        try await space.open()
        // A class that was locked by now stays so: nobody is asked.
        let stored = try await conflictsExplained { () throws(KeystoreError) in
            try await space.records.apply(
                change.records, classes: change.classes, for: space.prompt("store ‘\(key)’"),
                authorizedBy: NobodyPresent())
        }
        await takeBack(change)
        return try checked(stored)
    }

    /// Makes the change with what is open.
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

    /// Has the hardware take back the key of a class that was dropped: no copy of the store opens it any more. What it
    /// can't do now is done when the space is opened the next time.
    private func takeBack(_ change: Change) async {
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

    /// Success is what the store says afterwards, the protection above all.
    private func checked(_ stored: [Record]) throws(KeystoreError) -> Record {
        let (space, row) = try place()
        guard let stored = stored.first, let found = try space.records.metadataNow(row.id) else { throw changed() }
        guard found.generation > stored.generation || found == stored else {
            throw .damaged("store the vault ‘\(key)’", "the store has not kept what was written")
        }
        return stored
    }

    // MARK: Resetting

    private func resetting(_ row: VaultRow) -> Change {
        Change(records: [.delete(row.id, ifGeneration: nil)], classes: [.drop(prefix: row.classes.prefix)])
    }

    /// Deletes whatever is stored, readable or not. Needs no hardware and nobody.
    func reset() async throws(KeystoreError) -> Vault<Credentials> {
        let (space, row) = try place()
        let change = resetting(row)
        try await space.records.apply(
            change.records, classes: change.classes, for: space.prompt("reset ‘\(key)’"), authorizedBy: NobodyPresent())
        await takeBack(change)
        return try emptied()
    }

    /// ``reset()`` on the caller's own thread.
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
