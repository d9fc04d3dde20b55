public import Latchkey

/// A vault in one of its states. Switch over it to decide which page to show; the typed vault in
/// each case has the calls of its state. The calls of this type exist for every state, and throw
/// `KeystoreError` with code `wrongState` in the wrong one; `vaultCode` states the reason.
///
/// Whether this machine can verify the user now is not part of the stored state: `empty` and
/// `emptyWithBiometrics`, `keychain` and `keychainUpgradable` differ only in that.
public enum Vault<Credentials: Codable & Sendable>: Sendable {
    /// Nothing is stored, and biometrics are available.
    case emptyWithBiometrics(EmptyVault<Credentials>)
    /// Nothing is stored, and biometrics are not available.
    case empty(EmptyVault<Credentials>)
    /// Stored without biometrics, which are not available.
    case keychain(KeychainSecureVault<Credentials>)
    /// Stored without biometrics, which are available.
    case keychainUpgradable(KeychainSecureVault<Credentials>)
    /// Stored with biometrics, and unlocked in this program.
    case biometrics(BiometricsSecureVault<Credentials>)
    /// Stored with biometrics and locked, or not usable: see
    /// ``LockedBiometricsSecureVault/failure``.
    case locked(LockedBiometricsSecureVault<Credentials>)
}

/// The calls of all states. Each forwards to the typed vault, or throws `KeystoreError` with code
/// `wrongState`.
extension Vault {
    /// The vault's key.
    public var key: String { slot.key }

    /// Whether the vault is stored with biometrics, locked or not. False if that is not known: see
    /// ``LockedBiometricsSecureVault/failure``.
    public var biometricsEnabled: Bool {
        switch self {
        case .biometrics: true
        case .locked(let vault): vault.record != nil || vault.slot.isStoredWithBiometrics
        case .empty, .emptyWithBiometrics, .keychain, .keychainUpgradable: false
        }
    }

    /// The stored credentials, from memory and disk.
    public var credentials: Credentials {
        get throws(KeystoreError) {
            switch self {
            case .keychain(let vault), .keychainUpgradable(let vault): try vault.slot.read(in: nil)
            case .biometrics(let vault): try vault.read()
            case .empty, .emptyWithBiometrics, .locked: throw wrongState(for: .read)
            }
        }
    }

    /// See `EmptyVault.storeToKeychain(credentials:)`.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func storeToKeychain(credentials: Credentials) throws(KeystoreError) -> Vault {
        try empty(for: .storeToKeychain).storeToKeychain(credentials: credentials).wrap()
    }

    /// See `EmptyVault.storeToKeychain(credentials:)`.
    public func storeToKeychain(credentials: Credentials) async throws(KeystoreError) -> Vault {
        try await empty(for: .storeToKeychain).storeToKeychain(credentials: credentials).wrap()
    }

    /// See ``EmptyVault/storeToBiometrics(credentials:)``.
    public func storeToBiometrics(credentials: Credentials) async throws(KeystoreError) -> Vault {
        try await empty(for: .storeToBiometrics).storeToBiometrics(credentials: credentials).wrap()
    }

    /// See `KeychainSecureVault.update(credentials:)` and
    /// `BiometricsSecureVault.update(credentials:)`.
    public func update(credentials: Credentials) async throws(KeystoreError) -> Vault {
        switch self {
        case .keychain(let vault), .keychainUpgradable(let vault):
            try await vault.update(credentials: credentials).wrap()
        case .biometrics(let vault): try await vault.update(credentials: credentials).wrap()
        case .empty, .emptyWithBiometrics, .locked: throw wrongState(for: .read)
        }
    }

    /// See ``KeychainSecureVault/upgrade()``.
    public func upgrade() async throws(KeystoreError) -> Vault {
        switch self {
        case .keychain(let vault), .keychainUpgradable(let vault): try await vault.upgrade().wrap()
        case .empty, .emptyWithBiometrics, .biometrics, .locked: throw wrongState(for: .upgrade)
        }
    }

    /// See `BiometricsSecureVault.downgrade()`.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func downgrade() throws(KeystoreError) -> Vault {
        try open(for: .downgrade).downgrade().wrap()
    }

    /// See `BiometricsSecureVault.downgrade()`.
    public func downgrade() async throws(KeystoreError) -> Vault {
        try await open(for: .downgrade).downgrade().wrap()
    }

    /// See ``BiometricsSecureVault/lock()``.
    public func lock() throws(KeystoreError) -> Vault {
        try open(for: .lock).lock().wrap()
    }

    /// See ``LockedBiometricsSecureVault/unlock()``.
    public func unlock() async throws(KeystoreError) -> Vault {
        guard case .locked(let vault) = self else { throw wrongState(for: .unlock) }
        return try await vault.unlock().wrap()
    }

    /// See ``LockedBiometricsSecureVault/reauthenticateOwner()``.
    public func reauthenticateOwner() async throws(KeystoreError) -> Bool {
        switch self {
        case .biometrics(let vault): try await vault.reauthenticateOwner()
        case .locked(let vault): try await vault.reauthenticateOwner()
        case .empty, .emptyWithBiometrics, .keychain, .keychainUpgradable:
            throw wrongState(for: .verifyOwner)
        }
    }

    /// Deletes the stored value, and returns an empty vault.
    ///
    /// - Throws: `KeystoreError` if anything remains.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault { try slot.resetNow() }

    /// Deletes the stored value, and returns an empty vault.
    public func reset() async throws(KeystoreError) -> Vault { try await slot.reset() }

    // MARK: Helpers

    private var slot: VaultSlot<Credentials> {
        switch self {
        case .empty(let vault), .emptyWithBiometrics(let vault): vault.slot
        case .keychain(let vault), .keychainUpgradable(let vault): vault.slot
        case .biometrics(let vault): vault.slot
        case .locked(let vault): vault.slot
        }
    }

    private func empty(
        for call: VaultErrorCode.Call
    ) throws(KeystoreError) -> EmptyVault<Credentials> {
        switch self {
        case .empty(let vault), .emptyWithBiometrics(let vault): return vault
        case .keychain, .keychainUpgradable, .biometrics, .locked: throw wrongState(for: call)
        }
    }

    private func open(
        for call: VaultErrorCode.Call
    ) throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        guard case .biometrics(let vault) = self else { throw wrongState(for: call) }
        return vault
    }

    private func wrongState(for call: VaultErrorCode.Call) -> KeystoreError {
        let state: VaultErrorCode.State =
            switch self {
            case .empty, .emptyWithBiometrics: .empty
            case .keychain, .keychainUpgradable: .keychain
            case .biometrics: .unlocked
            case .locked: .locked
            }
        return slot.wrongState(state, for: call)
    }
}
