import Latchkey
import LatchkeyVault

struct Credentials: Codable, Sendable {
    var username: String
    var password: String
}

/// Returns the credentials, after user verification if they need it.
func openVault(in records: RecordContainer, presence: any PresenceAuthority) async throws
    -> Credentials?
{
    try await VaultSpace.bootstrap(VaultSpace(records: records, presence: presence, policy: .pin))
    switch VaultFactory<Credentials>.retrieveVault(key: "credentials") {
    case .empty, .emptyWithBiometrics: return nil
    case .keychain(let vault), .keychainUpgradable(let vault): return try await vault.read()
    case .biometrics(let vault): return try vault.read()
    case .locked(let vault): return try await vault.unlock().read()
    }
}
