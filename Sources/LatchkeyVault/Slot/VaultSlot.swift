internal import FoundationEssentials
internal import Latchkey

/// One named slot for credentials: everything that the typed vaults do, they do with this.
///
/// Each change writes the new state, then one transaction swaps it in: a crash leaves the old state or the new one.
struct VaultSlot<Credentials: Codable & Sendable>: Sendable {
    let key: String
    let space: VaultSpace?

    // MARK: Looking

    /// The vault as it is now.
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
                operation: "open the vault", code: .wrongState, reason: "this program has not named its vault space",
                recovery: "Call VaultSpace.bootstrap when the program starts.")
        }
        return (space, try VaultRow(key: key))
    }

    // MARK: Reading

    /// The credentials, from memory and disk.
    ///
    /// - Parameter session: What a vault with biometrics must be open in; nil for a vault without.
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
                "read the vault ‘\(key)’", "what is stored is not of the type that the program expects")
        }
        return credentials
    }

    func encode(_ credentials: Credentials) throws(KeystoreError) -> SecretBytes {
        do {
            var bytes = try JSONEncoder().encode(Envelope(value: credentials))
            defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
            return SecretBytes(bytes)
        } catch {
            throw .invalidInput("store the vault ‘\(key)’", "the credentials can't be written as JSON")
        }
    }

    /// Credentials may be any JSON value, a bare string too.
    private struct Envelope: Codable {
        let value: Credentials
    }

    // MARK: Errors

    /// What is stored is not what the caller's vault says.
    func changed() -> KeystoreError {
        .conflict(
            "use the vault ‘\(key)’", "it was changed meanwhile, by another copy or program",
            recovery: "Retrieve the vault again.")
    }

    func wrongState(_ operation: String, _ state: String) -> KeystoreError {
        KeystoreError(
            operation: "\(operation) the vault ‘\(key)’", code: .wrongState, reason: "it is \(state)",
            recovery: "Retrieve the vault, and use the calls of the state that it is in.")
    }
}
