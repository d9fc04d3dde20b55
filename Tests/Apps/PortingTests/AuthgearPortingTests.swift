import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The statements of Authgear's SDK document, the user's view, against a real server.
@Suite(.softwareTPM) @MainActor
struct AuthgearPortingTests {
    private let removal = "/api/identity/biometric/remove"

    @Test func `an app follows the intended usage`() async throws {
        try await PortingDevice.with { device in
            // "This function can be called at anytime."
            let first = try await device.start(pins: [])
            #expect(await first.isBiometricAvailable())
            #expect(try await first.getLastUserID() == nil)
            #expect(try await !first.isBiometricEnabled())

            var app = AuthgearApp(try await device.start())
            try await app.onClickLogin()
            let container = try await device.start()
            let userID = try #require(try await container.getLastUserID())
            #expect(try await container.isBiometricEnabled())
            // The session has expired. The next program logs in with one PIN, and without a
            // browser.
            try await container.clear()
            let absent = UserBrowser(device.server.users[0])
            app = AuthgearApp(try await device.start(pins: [PortingDevice.pin], browser: absent))
            try await app.onSessionExpired()
            #expect(app.shown == ["log in with biometric?", "main"])
            #expect(await absent.opened.isEmpty)
            #expect(try await container.fetchUserInfo().userID == userID)

            // The identity is removed on the settings page.
            _ = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint, submitting: true)
            let kid = try #require(try await container.listBiometricKeys().first?.id)
            app = AuthgearApp(try await device.start())
            try await app.onSessionExpired()
            #expect(app.shown == ["log in with biometric?", "login: identity not found"])
            // 4.1: listBiometricKeys no longer includes that kid.
            #expect(try await !container.listBiometricKeys().map(\.id).contains(kid))
            #expect(try await !container.isBiometricEnabled())
            try await app.onSessionExpired()
            #expect(app.shown.count == 2)
            #expect(try await container.getLastUserID() == userID)
        }
    }

    @Test func `enabledBiometric follows its four steps`() async throws {
        try await PortingDevice.with { device in
            let presence = ScriptedPresence(pins: PortingDevice.pin)
            let container = try Container(
                ContainerConfiguration(
                    endpoint: device.server.endpoint, clientID: device.server.clientID, policy: .pin
                ),
                records: try await device.records(), presence: presence,
                browser: UserBrowser(device.server.users[0]), transport: device.network)
            // "This function can be called when the user has logged in."
            await #expect(throws: login(.unauthenticated)) {
                try await container.enabledBiometric()
            }
            #expect(presence.requests.isEmpty)
            try await container.authorize()
            let before = device.network.sent.count
            let key = try await container.enabledBiometric()
            #expect(presence.requests.count == 1)
            // 1. A UUID of version 4 is generated as kid.
            let kid = key.id.rawValue
            #expect(UUID(uuidString: kid)?.uuidString.dropFirst(14).first == "4")
            // 2. A key pair is stored. Its use requires user verification.
            #expect(key.key.policy == .pin)
            #expect(try await container.listBiometricKeys() == [key])
            // 3 and 4. A challenge is requested, then the identity is added.
            #expect(
                device.network.sent.dropFirst(before) == [
                    "POST /oauth2/challenge", "POST /oauth2/token",
                ])
            let page = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint)
            #expect(page.contains(kid))
        }
    }

    @Test func `authenticateBiometric requests a challenge, then tokens, and needs no session`()
        async throws
    {
        try await PortingDevice.with { device in
            let first = try await device.start()
            try await first.authorize()
            try await first.enabledBiometric()
            try await first.logout(keepBiometric: true)
            let stranger = try await device.start(pins: ["1111"])
            await #expect(throws: keystore(.wrongProof)) {
                try await stranger.authenticateBiometric()
            }
            #expect(try await stranger.sessionState == .noSession)
            let before = device.network.sent.count
            let second = try await device.start(pins: [PortingDevice.pin])
            let userID = try await second.authenticateBiometric().userInfo.userID
            let sent = device.network.sent.dropFirst(before).filter { $0.hasPrefix("POST") }
            #expect(sent.prefix(2) == ["POST /oauth2/challenge", "POST /oauth2/token"])
            #expect(try await second.getLastUserID() == userID)
            #expect(try await second.sessionState == .authenticated)
        }
    }

    @Test func `disableBiometric follows its six steps`() async throws {
        try await PortingDevice.with { device in
            let container = try await device.start()
            // "This function can be called when the user has logged in." 6: there is no key pair;
            // that error is thrown.
            await #expect(throws: login(.notEnabled)) { try await container.disableBiometric() }
            try await container.authorize()
            // 1 and 3.
            try await container.enabledBiometric()
            try await container.disableBiometric()
            #expect(device.network.sent.last == "POST \(removal)")
            #expect(try await container.listBiometricKeys().isEmpty)
            var page = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint)
            #expect(page.contains("No device is set up"))
            // 4: the identity is not found; that error is thrown at once, and the key pair is
            // deleted.
            try await container.enabledBiometric()
            let identity = try #require(try await container.listBiometricKeys().first).id
            _ = try await SystemProgram("curl").require([
                "--silent", "--fail", "--json", #"{"kid": "\#(identity.rawValue)"}"#, "--header",
                "Authorization: Bearer \(try await container.accessToken)",
                device.server.endpoint + removal,
            ])
            await #expect(throws: login(.identityNotFound)) {
                try await container.disableBiometric()
            }
            #expect(try await container.listBiometricKeys().isEmpty)
            // 2 and 5: the key pair is not found, and the identity was removed: no error.
            try await container.enabledBiometric()
            device.network.failingPath = removal
            await #expect(throws: login(.network)) { try await container.disableBiometric() }
            #expect(try await container.listBiometricKeys().isEmpty)
            device.network.failingPath = nil
            try await container.disableBiometric()
            #expect(device.network.sent.last == "POST \(removal)")
            page = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint)
            #expect(page.contains("No device is set up"))
            // 6.
            await #expect(throws: login(.notEnabled)) { try await container.disableBiometric() }
        }
    }

    @Test func `logout calls disableBiometric, and another user can log in`() async throws {
        try await PortingDevice.with { device in
            let app = AuthgearApp(try await device.start())
            try await app.onClickLogin()
            let alice = try #require(try await device.start().getLastUserID())
            try await app.onClickLogout()
            #expect(app.shown == ["use biometric?", "biometric will be disabled"])
            let bob = try await device.start(user: 1)
            #expect(try await bob.getLastUserID() == alice)
            #expect(try await !bob.isBiometricEnabled())
            #expect(try await bob.sessionState == .noSession)
            let page = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint)
            #expect(page.contains("No device is set up"))
            try await AuthgearApp(bob).onClickLogin()
            #expect(try await bob.getLastUserID() != alice)
            #expect(try await bob.isBiometricEnabled())
        }
    }

    @Test func `everything is scoped by the container's name, which is "default" if none is given`()
        async throws
    {
        try await PortingDevice.with { device in
            let store = try await RecordStore(directory: device.directory.path)
            let unnamed = try RecordContainer(
                store: store, keystore: try await device.records().keystore)
            #expect(unnamed.name == "default")
            #expect(try await device.start().name == "default")
            let (work, home) = (
                try await device.start(), try await device.start(name: "home", user: 1)
            )
            #expect(home.name == "home")
            try await work.authorize()
            try await work.enabledBiometric()
            #expect(try await home.getLastUserID() == nil)
            #expect(try await home.listBiometricKeys().isEmpty)
            #expect(try await home.sessionState == .noSession)
            await #expect(throws: login(.notEnabled)) { try await home.authenticateBiometric() }
            // Multiple accounts: another user in another container, without a hint of the first.
            try await home.authorize()
            try await home.enabledBiometric()
            try await home.logout()
            #expect(try await work.isBiometricEnabled())
            #expect(try await work.authenticateBiometric().userInfo.userID == work.getLastUserID())
            #expect(try await work.getLastUserID() != home.getLastUserID())
        }
    }

    @Test func `refresh tokens are stored, or in memory only`() async throws {
        try await PortingDevice.with { device in
            for (storage, name, after) in [
                (TokenStorage.persistent, "default", SessionState.authenticated),
                (.memory, "bank", .noSession),
            ] {
                let first = try await device.start(name: name, tokenStorage: storage)
                try await first.authorize()
                try await first.enabledBiometric()
                #expect(try await !first.accessToken.isEmpty)
                let next = try await device.start(name: name, tokenStorage: storage)
                #expect(try await next.sessionState == after)
                let stored = try await device.records(name).list("login.session")
                #expect(stored.count == (storage == .persistent ? 1 : 0))
                #expect(
                    try await next.authenticateBiometric().userInfo.userID == first.getLastUserID())
            }
        }
    }

    /// "The data is stored with kSecAttrAccessibleWhenUnlockedThisDeviceOnly, therefore the data is
    /// not included in backup, nor transfered to new device."
    @Test func `a backup on a new device has no last user, no key and no session`() async throws {
        try await PortingDevice.with { device in
            let container = try await device.start()
            try await container.authorize()
            try await container.enabledBiometric()
            let (backup, tpm) = (try device.directory.copyOfStore(), try await SoftwareTPM())
            let store = try await RecordStore(directory: backup.path)
            func restored() throws -> Container {
                try Container(
                    ContainerConfiguration(
                        endpoint: device.server.endpoint, clientID: device.server.clientID),
                    records: RecordContainer(
                        store: store, keystore: TPMKeystore(tcti: tpm.tcti, anchors: store)),
                    presence: ScriptedPresence(pins: "1357"),
                    browser: UserBrowser(device.server.users[1]))
            }
            let newDevice = try restored()
            #expect(try await newDevice.getLastUserID() == nil)
            #expect(try await !newDevice.isBiometricEnabled())
            #expect(try await newDevice.sessionState == .noSession)
            #expect(try await newDevice.listBiometricKeys().isEmpty)
            await #expect(throws: keystore(.wrongDevice)) {
                try await newDevice.authenticateBiometric()
            }
            // The next step: the app archives the store, and another user logs in.
            try await store.startOver()
            try await restored().authorize()
            #expect(try await newDevice.getLastUserID() != container.getLastUserID())
            #expect(try await newDevice.getLastUserID() != nil)
            // The old device is as it was.
            #expect(
                try await container.authenticateBiometric().userInfo.userID
                    == container.getLastUserID())
            await tpm.cutPower()
        }
    }

    /// "This function will perform cleanup so that logging in a different user is possible."
    @Test(arguments: [TokenStorage.persistent, .memory])
    func `logout performs the cleanup also after the session has ended`(tokenStorage: TokenStorage)
        async throws
    {
        try await PortingDevice.with { device in
            let app = try await device.start(tokenStorage: tokenStorage)
            let alice = try await app.authorize().userInfo.userID
            try await app.enabledBiometric()
            try await app.clear()
            // "Without a session" is not an error of logout. The key pair is deleted, and a second
            // call does nothing.
            try await app.logout()
            try await app.logout()
            #expect(try await !app.isBiometricEnabled())
            await #expect(throws: login(.notEnabled)) { try await app.authenticateBiometric() }
            let bob = try await device.start(user: 1, tokenStorage: tokenStorage)
            #expect(try await bob.authorize().userInfo.userID != alice)
            try await bob.logout()
            // The next login of the same user removes the identity from the server.
            try await device.start(tokenStorage: tokenStorage).authorize()
            let page = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint)
            #expect(page.contains("No device is set up"))
        }
    }

    /// "2. If the key pair is not found, save the error as e. 3. Call
    /// /api/identity/biometric/remove … 5. If identity was removed and e is non-null, set e to
    /// null."
    @Test(.requires(program: "softhsm2-util"))
    func `a key pair that another program has deleted does not stop disableBiometric`() async throws
    {
        try await PortingDevice.with { device in
            let token = try await SoftwareToken(label: "Porting")
            let keystore = try PKCS11Keystore(uri: token.uri)
            let owner = ScriptedPresence(Array(repeating: .pin(token.userPIN), count: 8))
            let container = try Container(
                ContainerConfiguration(
                    endpoint: device.server.endpoint, clientID: device.server.clientID, policy: .pin
                ),
                records: RecordContainer(
                    store: try await RecordStore(directory: device.directory.path),
                    keystore: keystore),
                presence: owner, browser: UserBrowser(device.server.users[0]),
                transport: device.network)
            try await container.authorize()
            let key = try await container.enabledBiometric()
            try await keystore.delete(
                key.key, for: PromptContext(reason: "delete the key"), authorizedBy: owner)
            try await container.disableBiometric()
            #expect(device.network.sent.last == "POST \(removal)")
            #expect(try await !container.isBiometricEnabled())
            let page = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint)
            #expect(page.contains("No device is set up"))
        }
    }
}
