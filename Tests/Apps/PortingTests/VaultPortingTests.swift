import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import LatchkeyVault
import Testing

/// Runs the code of BiometricsVault's README on the main actor, as an app does, and checks its
/// statements. One test uses the shared space, because a program has one.
@Suite(.softwareTPM) @MainActor
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
        #expect(early?.recovery == "Call VaultSpace.bootstrap when the program starts.")

        // A store that was copied from another device: the app shows the lock screen, and 'reset'
        // always deletes.
        try await onNewDevice { space in
            let error = await #expect(throws: KeystoreError.self) {
                try await VaultSpace.bootstrap(space)
            }
            #expect(error?.code == .wrongDevice)
            #expect(error?.recovery.contains("RecordStore.startOver()") == true)
            app.start()
            #expect(app.shown == "locked")
            _ = try await VaultFactory<MyCredentials>.retrieveVault(key: "my_app_credentials")
                .reset()
            app.start()
            #expect(app.shown == "login, biometrics: false")
            // The next step of the error.
            try await space.records.store.startOver()
            try await VaultSpace.bootstrap(space)
            app.start()
            #expect(app.shown == "login, biometrics: true")
        }

        try await VaultSpace.bootstrap(
            VaultSpace(records: records, presence: ScriptedPresence(pins: "2468"), policy: .pin))
        app.start()
        #expect(app.shown == "login, biometrics: true")

        func vault() -> Vault<MyCredentials> {
            VaultFactory.retrieveVault(key: "my_app_credentials")
        }
        _ = try await vault().storeToKeychain(
            credentials: MyCredentials(username: "jane", accessToken: "token"))
        app.start()
        #expect(app.shown == "main, jane")
        _ = try await vault().upgrade()
        app.start()
        #expect(app.shown == "main, jane")
        _ = try vault().lock()
        app.start()
        #expect(app.shown == "locked")

        // A value of an earlier version of the app, whose type had fewer fields.
        _ = try await vault().reset()
        struct OldCredentials: Codable, Sendable { let username: String }
        let old = VaultFactory<OldCredentials>.retrieveVault(key: "my_app_credentials")
        _ = try await old.storeToKeychain(credentials: OldCredentials(username: "jane"))
        app.start()
        #expect(app.shown == "locked")
        guard case .locked(let unreadable) = vault() else { throw Unexpected() }
        #expect(unreadable.failure?.code == .invalidInput)
        let failure = await #expect(throws: KeystoreError.self) { try await unreadable.unlock() }
        #expect(failure?.code == .invalidInput)
        #expect(
            try VaultFactory<OldCredentials>.retrieveVault(key: "my_app_credentials").credentials
                .username == "jane")
        // The records are locked, for example because the user's session is.
        await records.lock()
        app.start()
        #expect(app.shown == "locked")
        guard case .locked(let closed) = vault() else { throw Unexpected() }
        #expect(closed.failure?.code == .wrongState)
        guard case .emptyWithBiometrics = try await closed.reset() else { throw Unexpected() }
    }

    /// Runs `body` with the closed space of a store that contains the app's vault, on another TPM.
    private func onNewDevice(_ body: (VaultSpace) async throws -> Void) async throws {
        let directory = try TemporaryDirectory()
        let space = try await launch(directory, ScriptedPresence(pins: "2468"))
        let vault = VaultFactory<MyCredentials>.retrieveVault(key: "my_app_credentials", in: space)
        _ = try await vault.storeToBiometrics(
            credentials: MyCredentials(username: "jane", accessToken: "token"))
        let (backup, tpm) = (try directory.copyOfStore(), try await SoftwareTPM())
        let store = try await RecordStore(directory: backup.path)
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: tpm.tcti, anchors: store))
        try await body(VaultSpace(records: records, presence: ScriptedPresence([]), policy: .pin))
        await tpm.cutPower()
    }

    /// "Call 'reauthenticateOwner' when unlock fails due to FaceID/TouchID being locked (Error:
    /// LAError.biometryLockout)."
    @Test func `reauthenticateOwner lifts a lockout after which unlock works`() async throws {
        let directory = try TemporaryDirectory()
        let password = try #require(try SoftwareTPM.current.lockoutPassword)
        let wrong = Array(repeating: "1111", count: 3)
        let presence = ScriptedPresence(
            (["2468"] + wrong + [password, "2468"]).map(ScriptedPresence.Step.pin))
        let space = try await launch(directory, presence)
        let vault = VaultFactory<MyCredentials>.retrieveVault(key: "v", in: space)
        let credentials = MyCredentials(username: "jane", accessToken: "token")
        guard
            case .biometrics(let made) = try await vault.storeToBiometrics(credentials: credentials)
        else {
            throw Unexpected()
        }
        let locked = made.lock()
        for _ in wrong { await #expect(throws: KeystoreError.self) { try await locked.unlock() } }
        let lockout = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
        #expect(lockout?.code == .lockedOut && lockout?.lockedOutUntil != nil)
        #expect(try await locked.reauthenticateOwner())
        #expect(try await locked.unlock().credentials.username == "jane")
        #expect(presence.requests.count == 6)
    }

    /// The app's space after a launch.
    private func launch(
        _ directory: TemporaryDirectory, _ presence: ScriptedPresence, policy: AccessPolicy = .pin
    ) async throws -> VaultSpace {
        let store = try await RecordStore(directory: directory.path)
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
        let space = try VaultSpace(records: records, presence: presence, policy: policy)
        try await space.open()
        await space.refreshAvailability()
        return space
    }

    @Test func `each scenario of the table lasts across app launches`() async throws {
        let directory = try TemporaryDirectory()
        let presence = ScriptedPresence(Array(repeating: .pin("2468"), count: 8))
        let jane = MyCredentials(username: "jane", accessToken: "token")
        let app = VaultApp()
        var space = try await launch(directory, presence)
        /// The state after a scenario, and the number of prompts so far.
        func state(after scenario: VaultApp.Scenario, relaunching: Bool) async throws -> String {
            try await app.perform(scenario, jane, in: space)
            if relaunching { space = try await launch(directory, presence) }
            let vault = VaultFactory<MyCredentials>.retrieveVault(
                key: "my_app_credentials", in: space)
            let name =
                switch vault {
                case .empty: "empty"
                case .emptyWithBiometrics: "emptyWithBiometrics"
                case .keychain: "keychain"
                case .keychainUpgradable(let vault):
                    "keychainUpgradable \(vault.credentials.username)"
                case .biometrics(let vault): "biometrics \(vault.credentials.username)"
                case .locked: "locked"
                }
            return "\(name) \(presence.requests.count)"
        }
        #expect(try await state(after: .newLogin, relaunching: true) == "keychainUpgradable jane 0")
        #expect(
            try await state(after: .userEnablesBiometrics, relaunching: false)
                == "biometrics jane 1")
        #expect(try await state(after: .lockTheApp, relaunching: false) == "locked 1")
        #expect(try await state(after: .unlockTheApp, relaunching: false) == "biometrics jane 2")
        #expect(
            try await state(after: .userDisablesBiometrics, relaunching: true)
                == "keychainUpgradable jane 2")
        #expect(try await state(after: .userLogsOut, relaunching: true) == "emptyWithBiometrics 2")
        #expect(try await state(after: .newLoginWithBiometrics, relaunching: true) == "locked 3")
        #expect(try await state(after: .unlockTheApp, relaunching: true) == "locked 4")
        #expect(try await state(after: .userLogsOut, relaunching: true) == "emptyWithBiometrics 4")
    }

    @Test
    func `each vault has the calls of the catalogue, and a call returns the vault that it names`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let presence = ScriptedPresence(Array(repeating: .pin("2468"), count: 16))
        let space = try await launch(directory, presence)
        let (jane, june) = (
            MyCredentials(username: "jane", accessToken: "1"),
            MyCredentials(username: "june", accessToken: "2")
        )
        var next: Vault<MyCredentials> = VaultFactory.retrieveVault(key: "v", in: space)
        /// The empty vault, which `reset` returns in every state.
        func empty(_ vault: Vault<MyCredentials>) throws -> EmptyVault<MyCredentials> {
            guard case .emptyWithBiometrics(let empty) = vault else { throw Unexpected() }
            #expect(throws: KeystoreError.self) {
                try VaultFactory<MyCredentials>.retrieveVault(key: "v", in: space).credentials
            }
            return empty
        }
        // EmptyVault and KeychainSecureVault.
        var plain: KeychainSecureVault<MyCredentials> = try await empty(next).storeToKeychain(
            credentials: jane)
        #expect(plain.credentials.username == "jane" && presence.requests.isEmpty)
        plain = try await plain.update(credentials: june)
        #expect(plain.credentials.username == "june")
        next = try await plain.reset()
        plain = try await empty(next).storeToKeychain(credentials: jane)
        var protected: BiometricsSecureVault<MyCredentials> = try await plain.upgrade()
        #expect(protected.credentials.username == "jane" && presence.requests.count == 1)
        // BiometricsSecureVault.
        protected = try await protected.update(credentials: june)
        #expect(protected.credentials.username == "june" && presence.requests.count == 1)
        plain = try await protected.downgrade()
        #expect(plain.credentials.username == "june")
        protected = try await plain.upgrade()
        next = try await protected.reset()
        protected = try await empty(next).storeToBiometrics(credentials: jane)
        #expect(try await protected.reauthenticateOwner())
        // LockedBiometricsSecureVault, which has no credentials.
        var locked: LockedBiometricsSecureVault<MyCredentials> = protected.lock()
        #expect(throws: KeystoreError.self) { try protected.read() }
        #expect(locked.failure == nil)
        protected = try await locked.unlock()
        #expect(protected.credentials.username == "jane")
        locked = protected.lock()
        #expect(try await locked.reauthenticateOwner())
        next = try await locked.reset()
        // The names of the state diagram.
        plain = try await empty(next).storeTokeychain(credentials: jane)
        protected = try await plain.upgradeWithBiometrics()
        plain = try await protected.downgradeToKeychain()
        next = try await plain.reset()
        // The name of the table, and the same calls on `Vault`.
        plain = try await empty(next).storeToKeyChain(credentials: jane)
        next = try await plain.reset().storeToKeyChain(credentials: jane).upgradeWithBiometrics()
            .downgradeToKeychain()
        #expect(try next.credentials.username == "jane")
        _ = try empty(await next.reset())
    }

    @Test func `without biometrics a vault is empty or keychain, and the helpers of Vault throw`()
        async throws
    {
        let directory = try TemporaryDirectory()
        // The machine has no fingerprint reader.
        let space = try await launch(directory, ScriptedPresence([]), policy: .biometryAny)
        let jane = MyCredentials(username: "jane", accessToken: "token")
        let vault: Vault<MyCredentials> = VaultFactory.retrieveVault(key: "v", in: space)
        guard case .empty = vault else { throw Unexpected() }
        let unavailable = await #expect(throws: KeystoreError.self) {
            try await vault.storeToBiometrics(credentials: jane)
        }
        #expect(unavailable?.code == .unavailable)
        guard case .keychain(let plain) = try await vault.storeToKeychain(credentials: jane) else {
            throw Unexpected()
        }
        #expect(plain.credentials.username == "jane")
        let stored: Vault<MyCredentials> = VaultFactory.retrieveVault(key: "v", in: space)
        guard case .keychain = stored else { throw Unexpected() }
        let wrong = await #expect(throws: KeystoreError.self) { try await stored.unlock() }
        #expect(wrong?.code == .wrongState)
        guard case .empty = try await stored.reset() else { throw Unexpected() }
    }

    /// The calls of an iOS app's synchronous handlers.
    @Test func `the synchronous calls work without a task`() async throws {
        let directory = try TemporaryDirectory()
        let store = try await RecordStore(directory: directory.path)
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
        let space = try VaultSpace(
            records: records, presence: ScriptedPresence(pins: "2468"), policy: .pin)
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
        let stored = try vault.storeToKeychain(
            credentials: MyCredentials(username: "jane", accessToken: "token"))
        guard case .keychainUpgradable(let plain) = stored else { throw Unexpected() }
        let updated = try plain.update(
            credentials: MyCredentials(username: "june", accessToken: "token"))
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
