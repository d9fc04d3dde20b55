internal import Latchkey

extension VaultSlot {
    /// A change that is prepared and not made yet.
    struct Change: Sendable {
        let record: RecordChange
        let classes: [ClassChange]
    }

    // MARK: Preparing

    /// Prepares storing the credentials without biometrics, or with biometrics in a new class. It
    /// destroys the key of the class that contained the credentials.
    ///
    /// - Parameter generation: The generation of the replaced record; 0 if nothing is stored.
    func storing(
        _ credentials: Credentials, in prepared: PreparedClass? = nil, ifGeneration generation: Int
    ) throws(KeystoreError) -> Change {
        let row = try spaceAndRow().row
        return Change(
            record: row.put(
                try encode(credentials), in: prepared?.protection ?? .device,
                ifGeneration: generation),
            classes: [.drop(prefix: row.classes.prefix)] + (prepared.map { [.add($0)] } ?? []))
    }

    /// Prepares a replacement with the same protection. Refuses a value without biometrics if
    /// another program has put it in place of a value with biometrics.
    func updating(_ record: Record, to credentials: Credentials) throws(KeystoreError) -> Change {
        let row = try spaceAndRow().row
        return Change(
            record: row.put(
                try encode(credentials), in: record.protection, ifGeneration: record.generation),
            classes: record.protection == .device ? [.expectNone(prefix: row.classes.prefix)] : [])
    }

    // MARK: Making

    /// Stores the credentials with biometrics, in a new class whose key is revocable if the
    /// hardware has room.
    func protect(
        _ credentials: Credentials, ifGeneration generation: Int
    ) async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        let (space, row) = try spaceAndRow()
        let capabilities = try await space.records.keystore.capabilities()
        let policy = await space.policy(on: capabilities)
        guard capabilities.sealing.contains(policy.requirement) else {
            throw named(
                "protect",
                .unsupported(
                    "this hardware can't enforce the policy ‘\(policy)’",
                    recovery: Recovery("Choose a policy that it can enforce.", .diagnose)))
        }
        do throws(KeystoreError) {
            try capabilities.checkSealing(under: policy)
        } catch {
            throw named("protect", error)
        }
        let prepared = try await space.records.prepare(
            row.classes.newClass(policy), revocably: .preferred,
            for: space.prompt("protect ‘\(key)’"),
            authorizedBy: space.presence)
        let record = try await make(storing(credentials, in: prepared, ifGeneration: generation))
        return BiometricsSecureVault(
            slot: self, stored: StoredRecord(record), session: prepared.session,
            credentials: credentials)
    }

    /// Makes the change. It opens the space, but no class that requires user verification.
    ///
    /// - Returns: The record as stored, after a check.
    func make(_ change: Change) async throws(KeystoreError) -> Record {
        try await openSpace()
        return try checked(await apply(change, "store ‘\(key)’"))
    }

    /// Makes the change with the classes that are open.
    func makeNow(_ change: Change) throws(KeystoreError) -> Record {
        try checked(applyNow(change))
    }

    /// Applies the change. A class that was locked in the meantime stays locked: this call never
    /// prompts.
    private func apply(_ change: Change, _ reason: String) async throws(KeystoreError) -> [Record] {
        let space = try spaceAndRow().space
        let stored: [Record]
        do throws(KeystoreError) {
            stored = try await space.records.apply(
                [change.record], classes: change.classes, for: space.prompt(reason),
                authorizedBy: NobodyPresent())
        } catch {
            throw error.code == .conflict ? changed() : error
        }
        // Revokes the key of a deleted class, so that no copy of the store can open the class. If
        // that fails, the next opening of the space tries again.
        if !change.classes.isEmpty { try? await space.records.finishRevocations() }
        return stored
    }

    private func applyNow(_ change: Change) throws(KeystoreError) -> [Record] {
        let records = try spaceAndRow().space.records
        do throws(KeystoreError) {
            let stored = try records.applyNow([change.record], classes: change.classes)
            records.finishRevocationsSoon()
            return stored
        } catch {
            throw error.code == .conflict ? changed() : error
        }
    }

    /// Reads the record again and compares it: the store must contain the written record with its
    /// protection.
    private func checked(_ stored: [Record]) throws(KeystoreError) -> Record {
        let (space, row) = try spaceAndRow()
        guard let stored = stored.first, let found = try space.records.metadataNow(row.id) else {
            throw changed()
        }
        guard found.generation > stored.generation || found == stored else {
            throw named("store", .damaged("the store does not contain the written record"))
        }
        return stored
    }

    // MARK: Resetting

    private func resetting() throws(KeystoreError) -> Change {
        let row = try spaceAndRow().row
        return Change(
            record: .delete(row.id, ifGeneration: nil), classes: [.drop(prefix: row.classes.prefix)]
        )
    }

    /// Deletes the stored record, readable or not. Uses no hardware and does not prompt.
    func reset() async throws(KeystoreError) -> Vault<Credentials> {
        _ = try await apply(resetting(), "reset ‘\(key)’")
        return try emptied()
    }

    /// Deletes the stored record as ``reset()`` does, on the caller's own thread.
    func resetNow() throws(KeystoreError) -> Vault<Credentials> {
        _ = try applyNow(resetting())
        return try emptied()
    }

    private func emptied() throws(KeystoreError) -> Vault<Credentials> {
        try checkEmpty()
        return EmptyVault(slot: self).wrap()
    }
}
