import Latchkey
import LatchkeyCredentials
import LatchkeyVault

/// Stores a password that requires user verification, and finds the token for a service.
func unlockAndFind(
    password: String, in records: RecordContainer, presence: any PresenceAuthority
) async throws -> (password: String, token: Token?) {
    try await VaultSpace.bootstrap(VaultSpace(records: records, presence: presence, policy: .pin))
    var vault = VaultFactory<String>.retrieveVault(key: "password")
    switch vault {
    case .empty, .emptyWithBiometrics:
        vault = try await vault.storeToBiometrics(credentials: password)
    case .keychain, .keychainUpgradable: vault = try await vault.upgrade()
    case .locked: vault = try await vault.unlock()
    case .biometrics: break
    }
    try await CredentialStore.bootstrap(CredentialStore(records: records, presence: presence))
    let credential = try Credential.find { $0.tags["service"] == "purchase" }.first
    try await credential?.refreshIfNeeded()
    return (try vault.credentials, try await credential?.token)
}
