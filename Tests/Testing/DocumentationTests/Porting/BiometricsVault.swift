import Latchkey
import LatchkeyVault

// The second column of PortingFromBiometricsVault.

private struct Login: Codable, Sendable {
    var user = ""
}

private func start(records: RecordContainer, presence: any PresenceAuthority) async throws -> Bool {
    let policy: AccessPolicy = .biometryCurrentSet
    let space = try VaultSpace(records: records, presence: presence, policy: policy)
    try await VaultSpace.bootstrap(space)
    return space.isUserVerificationAvailable
}

private func next(_ vault: Vault<Login>, _ login: Login) async throws -> Vault<Login> {
    switch vault {
    case .empty(let vault): return try await keep(login, in: vault)
    case .emptyWithBiometrics(let vault):
        return try await vault.storeWithBiometrics(credentials: login).wrap()
    case .keychain(let vault): return try await vault.update(credentials: login).wrap()
    case .keychainUpgradable(let vault): return try await upgrade(vault)
    case .biometrics(let vault): return try await downgrade(vault, login)
    case .locked(let vault): return try await open(vault)
    }
}

private func keep(_ login: Login, in vault: EmptyVault<Login>) async throws -> Vault<Login> {
    if vault.key.isEmpty { return try await vault.reset() }
    if login.user.isEmpty { return vault.wrap() }
    _ = try await vault.storeToBiometrics(credentials: login)
    return try await vault.storeToKeychain(credentials: login).wrap()
}

private func upgrade(_ vault: KeychainSecureVault<Login>) async throws -> Vault<Login> {
    if vault.credentials.user.isEmpty { return try await vault.reset() }
    _ = try await vault.read()
    return try await vault.upgradeWithBiometrics().wrap()
}

private func downgrade(_ vault: BiometricsSecureVault<Login>, _ login: Login)
    async throws -> Vault<Login>
{
    guard try await vault.reauthenticateOwner() else { return vault.lock().wrap() }
    if vault.credentials.user.isEmpty { return try await vault.reset() }
    _ = try vault.read()
    _ = try await vault.update(credentials: login).wrap()
    return try await vault.downgradeToKeychain().wrap()
}

private func open(_ vault: LockedBiometricsSecureVault<Login>) async throws -> Vault<Login> {
    if vault.failure != nil { return try await vault.reset() }
    guard try await vault.reauthenticateOwner() else { return vault.wrap() }
    return try await vault.unlock().wrap()
}

/// The helper methods.
private func useHelpers(_ login: Login) async throws {
    let vault = VaultFactory<Login>.retrieveVault(key: "login")
    if vault.biometricsEnabled { print(try vault.credentials) }
    _ = try await vault.storeToKeychain(credentials: login)
    _ = try await vault.storeWithBiometrics(credentials: login)
    _ = try await vault.storeToBiometrics(credentials: login)
    _ = try await vault.update(credentials: login)
    _ = try await vault.upgrade()
    _ = try await vault.upgradeToBiometrics()
    _ = try await vault.upgradeWithBiometrics()
    _ = try await vault.downgrade()
    _ = try await vault.downgradeToKeychain()
    _ = try vault.lock()
    _ = try await vault.unlock()
    _ = try await vault.reauthenticateOwner()
    _ = try await vault.reset()
}

@available(*, deprecated) private func useOldSpellings(_ vault: EmptyVault<Login>, _ login: Login)
    async throws
{
    _ = try await vault.storeTokeychain(credentials: login)
    _ = try await vault.storeToKeyChain(credentials: login)
}

private func isLocked(_ error: KeystoreError) -> Bool {
    guard let code: VaultErrorCode = error.vaultCode else { return false }
    return switch code {
    case .alreadyLockedWithBiometrics, .lockedWithBiometricsUseReset: true
    case .lockedWithBiometricsCannotEnable: true
    case .notEnabled, .notSecuredWithBiometrics, .notLockedWithBiometrics: false
    case .alreadyUsesKeychain, .alreadySecuredByKeychainUseSecureFunction: false
    case .alreadySecuredWithBiometrics: false
    }
}

private func text(of error: KeystoreError) -> [String?] {
    let kind =
        switch error.code as CommonErrorCode {
        case .unsupported, .unavailable, .notEnrolled, .passcodeNotSet:
            "this machine cannot verify you"
        case .damaged, .wrongDevice, .invalidated, .wrongProof: "the vault was not opened"
        case .failed, .conflict: "the vault was not changed"
        case .wrongState: "the vault is in another state"
        default: error.reason
        }
    return [kind, error.errorDescription, error.recovery]
}
