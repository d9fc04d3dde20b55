internal import Latchkey

extension VaultSlot {
    /// Opens what needs nobody to be present.
    func openSpace() async throws(KeystoreError) {
        try await place().space.open()
    }

    /// What is stored now.
    func presentState() throws(KeystoreError) -> VaultState {
        let (space, row) = try place()
        return VaultState(try space.records.metadataNow(row.id), of: row, session: space.records.session)
    }

    /// Asks whoever is present and opens the vault.
    ///
    /// - Parameter expected: The record that the caller's vault was made from.
    func unlock(_ expected: Record) async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        let (space, row) = try place()
        guard try space.records.metadataNow(row.id)?.protection == expected.protection else { throw changed() }
        let consent = SingleConsent(space.presence)
        try await space.records.open(
            expected.protection, for: space.prompt("unlock ‘\(key)’"), authorizedBy: consent)
        consent.confirm()
        do throws(KeystoreError) {
            try await space.open(as: consent)
            guard
                let session = space.records.session(expected.protection),
                let (record, payload) = try space.records.readNow(row.id, in: session)
            else { throw changed() }
            _ = try decode(payload)
            return BiometricsSecureVault(slot: self, record: record, session: session)
        } catch {
            lock()
            throw error
        }
    }

    func reauthenticateOwner(_ expected: Record) async throws(KeystoreError) -> Bool {
        let (space, row) = try place()
        guard try space.records.metadataNow(row.id)?.protection == expected.protection else { throw changed() }
        do throws(KeystoreError) {
            try await space.records.prove(
                expected.protection, for: space.prompt("confirm that you are the owner of ‘\(key)’"),
                authorizedBy: space.presence)
            return true
        } catch {
            guard error.code == .cancelled || error.code == .wrongProof else { throw error }
            return false
        }
    }

    /// Forgets the vault's key, in every copy, and whatever proof would open it again without anybody.
    func lock() {
        guard let (space, row) = try? place() else { return }
        space.records.keystore.endReuse()
        space.records.lock(prefix: row.classPrefix)
    }
}
