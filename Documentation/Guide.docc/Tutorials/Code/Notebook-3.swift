import Latchkey
import LatchkeyLogin
import LatchkeyPresence
import LatchkeyTPM
import LatchkeyVault

/// A user's login and notes on this machine.
struct Notebook {
    private let container: Container
    private var notes: Vault<[String]>

    /// - Parameter environment: `LATCHKEY_ENDPOINT` and `LATCHKEY_CLIENT_ID` select the server, `LATCHKEY_TCTI` the TPM,
    ///   `LATCHKEY_PIN_SOURCE` the source of PINs, and `BROWSER` the browser.
    init(environment: [String: String]) async throws {
        let store = try await RecordStore(
            directory: RecordStore.defaultDirectory(environment: environment), profile: "notes")
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store))
        let source = try PINSource(named: environment["LATCHKEY_PIN_SOURCE"])
        let presence = try source.authority(environment: environment)

        container = try Container(
            ContainerConfiguration(
                endpoint: environment["LATCHKEY_ENDPOINT"] ?? "http://127.0.0.1:3000",
                clientID: environment["LATCHKEY_CLIENT_ID"] ?? "notes"),
            records: records, presence: presence,
            browser: SystemBrowser(environment: environment) { print($0) })
        try await VaultSpace.bootstrap(
            VaultSpace(records: records, presence: presence, policy: .pin))
        notes = VaultFactory.retrieveVault(key: "notes")
    }

    /// The state of the notes, in one line.
    ///
    /// - Throws: The reason why the stored notes can't be unlocked.
    var state: String {
        get throws {
            switch notes {
            case .empty, .emptyWithBiometrics: return "There are no notes yet."
            case .locked(let vault):
                if let failure = vault.failure { throw failure }
                return "The notes are locked."
            case .keychain, .keychainUpgradable, .biometrics: return "The notes are open."
            }
        }
    }

    /// Logs in with the key. Without a key, logs in in the browser and creates a key.
    ///
    /// - Returns: The name of the user.
    func logIn() async throws -> String {
        let user: UserInfo
        if try await container.isBiometricEnabled() {
            user = try await container.authenticateBiometric().userInfo
        } else {
            user = try await container.authorize().userInfo
            try await container.enableBiometric(policy: .pin)
        }
        return user.preferredUsername ?? user.userID
    }

    /// Ends the session.
    func logOut() async throws {
        try await container.logout()
    }
}
