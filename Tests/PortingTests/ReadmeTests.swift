import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeyVault
import Testing

// What follows up to the mark stands in README.md word for word, so that it compiles there too.
/// Keeps a password for whoever is present, and finds the token for a service.
func unlockAndFind(
    password: String, in records: RecordContainer, presence: any PresenceAuthority
) async throws -> (password: String, token: Token?) {
    try await VaultSpace.bootstrap(VaultSpace(records: records, presence: presence, policy: .pin))
    var vault = VaultFactory<String>.retrieveVault(key: "password")
    switch vault {
    case .empty, .emptyWithBiometrics: vault = try await vault.storeToBiometrics(credentials: password)
    case .keychain, .keychainUpgradable: vault = try await vault.upgrade()
    case .locked: vault = try await vault.unlock()
    case .biometrics: break
    }
    try await CredentialStore.bootstrap(CredentialStore(records: records, presence: presence))
    let credential = try Credential.find { $0.tags["service"] == "purchase" }.first
    try await credential?.refreshIfNeeded()
    return (try vault.credentials, try await credential?.token)
}
// The mark.

@Suite struct `The README` {
    @Test func `shows Swift for vaults and credentials that compiles`() throws {
        let here = URL(filePath: #filePath)
        let source = try String(contentsOf: here, encoding: .utf8)
        let readme = try String(
            contentsOf: here.deletingLastPathComponent().appending(path: "../../README.md"), encoding: .utf8)
        let start = try #require(source.firstRange(of: "there too.\n")).upperBound
        let end = try #require(source.firstRange(of: "// The mark.")).lowerBound
        #expect(readme.contains(source[start..<end]))
    }
}
