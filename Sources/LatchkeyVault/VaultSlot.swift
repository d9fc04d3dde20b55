internal import FoundationEssentials
internal import Latchkey

/// One slot for credentials. It implements all operations of the typed vaults.
///
/// Each change is one transaction: a crash leaves either the old or the new state.
struct VaultSlot<Credentials: Codable & Sendable>: Sendable {
    let key: String
    let space: VaultSpace?

    // MARK: Retrieving

    /// The vault in its present state.
    var vault: Vault<Credentials> {
        let isAvailable = space?.isUserVerificationAvailable ?? false
        switch state {
        case .empty:
            let vault = EmptyVault(slot: self)
            return isAvailable ? .emptyWithBiometrics(vault) : .empty(vault)
        case .plain(let record): return wrap(KeychainSecureVault(slot: self, record: record))
        case .open(let record, let session):
            return .biometrics(BiometricsSecureVault(slot: self, record: record, session: session))
        case .locked(let record): return .locked(LockedBiometricsSecureVault(slot: self, record: record, failure: nil))
        case .unusable(let failure):
            return .locked(LockedBiometricsSecureVault(slot: self, record: nil, failure: failure))
        }
    }

    func wrap(_ vault: KeychainSecureVault<Credentials>) -> Vault<Credentials> {
        space?.isUserVerificationAvailable ?? false ? .keychainUpgradable(vault) : .keychain(vault)
    }

    private var state: VaultState {
        do throws(KeystoreError) {
            return try presentState()
        } catch {
            return .unusable(error)
        }
    }

    func place() throws(KeystoreError) -> (space: VaultSpace, row: VaultRow) {
        guard let space else {
            throw KeystoreError(
                operation: "open the vault", code: .wrongState, reason: "this program has not set its vault space",
                recovery: "Call VaultSpace.bootstrap when the program starts.")
        }
        return (space, try VaultRow(key: key))
    }

    // MARK: Reading

    /// Reads the credentials, from memory and disk.
    ///
    /// - Parameter session: The session in which a vault with biometrics must be open; nil for a vault without.
    func read(in session: ClassSession?) throws(KeystoreError) -> Credentials {
        let (space, row) = try place()
        guard let (record, payload) = try space.records.readNow(row.id, in: session) else { throw changed() }
        if session == nil {
            guard record.protection == .device else { throw changed() }
            guard try !space.records.isDowngraded(row.id, from: row.classes) else {
                throw .downgraded("read the vault")
            }
        }
        return try decode(payload)
    }

    func decode(_ payload: SecretBytes?) throws(KeystoreError) -> Credentials {
        guard
            let credentials = try? payload?.withUnsafeBytes({
                try JSONDecoder().decode(Envelope.self, from: Data($0))
            }).value
        else {
            throw .damaged(
                "read the vault ‘\(key)’", "the stored value does not have the type that the program expects")
        }
        return credentials
    }

    func encode(_ credentials: Credentials) throws(KeystoreError) -> SecretBytes {
        do {
            var bytes = try JSONEncoder().encode(Envelope(value: credentials))
            defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
            return SecretBytes(bytes)
        } catch {
            throw .invalidInput("store the vault ‘\(key)’", "the credentials cannot be encoded as JSON")
        }
    }

    /// Wraps the credentials, which may be any JSON value, in an object.
    private struct Envelope: Codable {
        let value: Credentials
    }

    // MARK: Errors

    /// The error if the stored record differs from the caller's vault.
    func changed() -> KeystoreError {
        .conflict(
            "use the vault ‘\(key)’", "another copy of the vault or another program changed it in the meantime",
            recovery: "Retrieve the vault again.")
    }

    func wrongState(_ operation: String, _ state: String) -> KeystoreError {
        KeystoreError(
            operation: "\(operation) the vault ‘\(key)’", code: .wrongState, reason: "it is \(state)",
            recovery: "Retrieve the vault again, and use the calls of its state.")
    }
}

extension VaultSlot {
    /// Opens the space.
    func openSpace() async throws(KeystoreError) {
        try await place().space.open()
    }

    /// The present state of the slot.
    func presentState() throws(KeystoreError) -> VaultState {
        let (space, row) = try place()
        return VaultState(
            try space.records.metadataNow(row.id), of: row,
            isDowngraded: try space.records.isDowngraded(row.id, from: row.classes), session: space.records.session)
    }

    /// Verifies the user and opens the vault.
    ///
    /// - Parameter expected: The record from which the caller's vault was created.
    func unlock(_ expected: Record) async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        let (space, row) = try place()
        guard try space.records.metadataNow(row.id)?.protection == expected.protection else { throw changed() }
        let consent = SingleConsent(space.presence)
        do throws(KeystoreError) {
            try await space.records.open(
                expected.protection, for: space.prompt("unlock ‘\(key)’"), authorizedBy: consent)
        } catch {
            // The key may be missing because the vault has changed its state.
            guard try space.records.metadataNow(row.id)?.protection == expected.protection else { throw changed() }
            throw error
        }
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

    /// Discards the vault's key, in every copy, and every proof that would open it again without a prompt.
    func lock() {
        guard let (space, row) = try? place() else { return }
        space.records.keystore.endReuse()
        space.records.lock(prefix: row.classes.prefix)
    }
}
