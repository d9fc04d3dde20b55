import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import LatchkeyVault
import Testing

/// Runs the code of BiometricsVault's README. One test, because a program has one shared space.
@Suite(.softwareTPM)
struct VaultPortingTests {
    @Test func `an app of the iOS library shows the right screen in each state`() async throws {
        let directory = try TemporaryDirectory()
        let store = try await RecordStore(directory: directory.path)
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
        let app = VaultApp()
        app.start()
        #expect(app.shown == "locked")
        let early = await #expect(throws: KeystoreError.self) {
            try await VaultFactory<MyCredentials>.retrieveVault(key: "x").reset()
        }
        #expect(early?.code == .wrongState)

        try await VaultSpace.bootstrap(
            VaultSpace(records: records, presence: ScriptedPresence(pins: "2468"), policy: .pin))
        app.start()
        #expect(app.shown == "login, biometrics: true")

        func vault() -> Vault<MyCredentials> { VaultFactory.retrieveVault(key: "my_app_credentials") }
        _ = try await vault().storeToKeychain(credentials: MyCredentials(username: "jane", accessToken: "token"))
        app.start()
        #expect(app.shown == "main, jane")
        _ = try await vault().upgrade()
        app.start()
        #expect(app.shown == "main, jane")
        _ = try vault().lock()
        app.start()
        #expect(app.shown == "locked")
    }

    /// The calls of an iOS app's synchronous handlers.
    @Test func `the synchronous calls work without a task`() async throws {
        let directory = try TemporaryDirectory()
        let store = try await RecordStore(directory: directory.path)
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
        let space = try VaultSpace(records: records, presence: ScriptedPresence(pins: "2468"), policy: .pin)
        #expect(throws: KeystoreError.self) { try Self.handlers(space) }
        try await space.open()
        await space.refreshAvailability()
        try Self.handlers(space)
        let vault = VaultFactory<MyCredentials>.retrieveVault(key: "sync", in: space)
        let credentials = MyCredentials(username: "j", accessToken: "t")
        try Self.settings(try await vault.storeToBiometrics(credentials: credentials))
    }

    private static func handlers(_ space: VaultSpace) throws {
        let vault = VaultFactory<MyCredentials>.retrieveVault(key: "sync", in: space)
        let stored = try vault.storeToKeychain(credentials: MyCredentials(username: "jane", accessToken: "token"))
        guard case .keychainUpgradable(let plain) = stored else { throw Unexpected() }
        let updated = try plain.update(credentials: MyCredentials(username: "june", accessToken: "token"))
        #expect(try updated.read().username == "june")
        guard case .emptyWithBiometrics = try updated.reset() else { throw Unexpected() }
    }

    private static func settings(_ vault: Vault<MyCredentials>) throws {
        let plain = try vault.downgradeToKeychain()
        #expect(try plain.credentials.username == "j")
        guard case .emptyWithBiometrics = try plain.reset() else { throw Unexpected() }
    }

    private struct Unexpected: Error {}
}
