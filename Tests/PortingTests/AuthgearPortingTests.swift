import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The statements of Authgear's SDK document (the user's view) and of its design document, against a real server.
@Suite(.softwareTPM) @MainActor
struct AuthgearPortingTests {
    /// A newly started program: a container over the device's store.
    ///
    /// - Parameters:
    ///   - pins: The PINs that the user enters.
    ///   - number: The number of the user who uses the browser.
    private func start(
        on device: PortingDevice, name: String = "default",
        pins: [String] = Array(repeating: PortingDevice.pin, count: 8),
        user number: Int = 0, browser: UserBrowser? = nil, tokenStorage: TokenStorage = .persistent
    ) async throws -> Container {
        try Container(
            ContainerConfiguration(
                endpoint: device.server.endpoint, clientID: device.server.clientID, tokenStorage: tokenStorage,
                policy: .pin),
            records: try await device.records(name), presence: ScriptedPresence(pins.map(ScriptedPresence.Step.pin)),
            browser: browser ?? UserBrowser(device.server.users[number]), transport: device.network)
    }

    private let removal = "/api/identity/biometric/remove"

    // MARK: The SDK document

    @Test func `an app follows the intended usage`() async throws {
        try await PortingDevice.with { device in
            // "This function can be called at anytime."
            let first = try await start(on: device, pins: [])
            #expect(await first.isBiometricAvailable())
            #expect(try await first.getLastUserID() == nil)
            #expect(try await !first.isBiometricEnabled())

            var app = AuthgearApp(try await start(on: device))
            try await app.onClickLogin()
            let container = try await start(on: device)
            let userID = try #require(try await container.getLastUserID())
            #expect(try await container.isBiometricEnabled())
            // The session has expired. The next program logs in with one PIN, and without a browser.
            try await container.clear()
            let absent = UserBrowser(device.server.users[0])
            app = AuthgearApp(try await start(on: device, pins: [PortingDevice.pin], browser: absent))
            try await app.onSessionExpired()
            #expect(app.shown == ["log in with biometric?", "main"])
            #expect(await absent.opened.isEmpty)
            #expect(try await container.fetchUserInfo().userID == userID)

            // The identity is removed on the settings page.
            _ = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint, submitting: true)
            let kid = try #require(try await container.listBiometricKeys().first?.id)
            app = AuthgearApp(try await start(on: device))
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
                    endpoint: device.server.endpoint, clientID: device.server.clientID, policy: .pin),
                records: try await device.records(), presence: presence,
                browser: UserBrowser(device.server.users[0]), transport: device.network)
            // "This function can be called when the user has logged in."
            await #expect(throws: login(.unauthenticated)) { try await container.enabledBiometric() }
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
                device.network.sent.dropFirst(before) == ["POST /oauth2/challenge", "POST /oauth2/token"])
            let page = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint)
            #expect(page.contains(kid))
        }
    }

    @Test func `authenticateBiometric requests a challenge, then tokens, and needs no session`() async throws {
        try await PortingDevice.with { device in
            let first = try await start(on: device)
            try await first.authorize()
            try await first.enabledBiometric()
            try await first.logout(keepBiometric: true)
            let stranger = try await start(on: device, pins: ["1111"])
            await #expect(throws: keystore(.wrongProof)) { try await stranger.authenticateBiometric() }
            #expect(try await stranger.sessionState == .noSession)
            let before = device.network.sent.count
            let second = try await start(on: device, pins: [PortingDevice.pin])
            let userID = try await second.authenticateBiometric().userInfo.userID
            let sent = device.network.sent.dropFirst(before).filter { $0.hasPrefix("POST") }
            #expect(sent.prefix(2) == ["POST /oauth2/challenge", "POST /oauth2/token"])
            #expect(try await second.getLastUserID() == userID)
            #expect(try await second.sessionState == .authenticated)
        }
    }

    @Test func `disableBiometric follows its six steps`() async throws {
        try await PortingDevice.with { device in
            let container = try await start(on: device)
            // "This function can be called when the user has logged in." 6: there is no key pair; that error is thrown.
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
            // 4: the identity is not found; that error is thrown at once, and the key pair is deleted.
            try await container.enabledBiometric()
            _ = try await UserBrowser(device.server.users[0])
                .settings("/settings/biometric", at: device.server.endpoint, submitting: true)
            await #expect(throws: login(.identityNotFound)) { try await container.disableBiometric() }
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
            let app = AuthgearApp(try await start(on: device))
            try await app.onClickLogin()
            let alice = try #require(try await start(on: device).getLastUserID())
            try await app.onClickLogout()
            #expect(app.shown == ["use biometric?", "biometric will be disabled"])
            let bob = try await start(on: device, user: 1)
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

    @Test func `everything is scoped by the container's name, which is "default" if none is given`() async throws {
        try await PortingDevice.with { device in
            let store = try await RecordStore(directory: device.directory.path)
            let unnamed = try RecordContainer(
                store: store, keystore: try await device.records().keystore)
            #expect(unnamed.name == "default")
            let (work, home) = (try await start(on: device), try await start(on: device, name: "home", user: 1))
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
                (TokenStorage.persistent, "default", SessionState.authenticated), (.memory, "bank", .noSession),
            ] {
                let first = try await start(on: device, name: name, tokenStorage: storage)
                try await first.authorize()
                try await first.enabledBiometric()
                #expect(try await !first.accessToken.isEmpty)
                let next = try await start(on: device, name: name, tokenStorage: storage)
                #expect(try await next.sessionState == after)
                let stored = try await device.records(name).list("login.session")
                #expect(stored.count == (storage == .persistent ? 1 : 0))
                #expect(try await next.authenticateBiometric().userInfo.userID == first.getLastUserID())
            }
        }
    }

    /// "The data is stored with kSecAttrAccessibleWhenUnlockedThisDeviceOnly, therefore the data is not included in backup,
    /// nor transfered to new device."
    @Test func `a backup on a new device has no last user, no key and no session`() async throws {
        try await PortingDevice.with { device in
            let container = try await start(on: device)
            try await container.authorize()
            try await container.enabledBiometric()
            let (backup, tpm) = (try device.directory.copyOfStore(), try await SoftwareTPM())
            let store = try await RecordStore(directory: backup.path)
            func restored() throws -> Container {
                try Container(
                    ContainerConfiguration(endpoint: device.server.endpoint, clientID: device.server.clientID),
                    records: RecordContainer(store: store, keystore: TPMKeystore(tcti: tpm.tcti, anchors: store)),
                    presence: ScriptedPresence(pins: "1357"), browser: UserBrowser(device.server.users[1]))
            }
            let newDevice = try restored()
            #expect(try await newDevice.getLastUserID() == nil)
            #expect(try await !newDevice.isBiometricEnabled())
            #expect(try await newDevice.sessionState == .noSession)
            #expect(try await newDevice.listBiometricKeys().isEmpty)
            await #expect(throws: keystore(.wrongDevice)) { try await newDevice.authenticateBiometric() }
            // The next step: the app archives the store, and another user logs in.
            try await store.startOver()
            try await restored().authorize()
            #expect(try await newDevice.getLastUserID() != container.getLastUserID())
            #expect(try await newDevice.getLastUserID() != nil)
            // The old device is as it was.
            #expect(try await container.authenticateBiometric().userInfo.userID == container.getLastUserID())
            await tpm.cutPower()
        }
    }

    // MARK: The design document

    @Test func `user B never reaches the key pair of user A`() async throws {
        try await PortingDevice.with { device in
            let alice = try await start(on: device)
            try await alice.authorize()
            let key = try await alice.enabledBiometric()
            let owner = try #require(try await alice.getLastUserID())
            // As in the HSBC app, logout ends the session, and biometric authentication is still available.
            try await alice.logout(keepBiometric: true)
            await #expect(throws: login(.unauthenticated)) { try await alice.fetchUserInfo() }
            #expect(try await alice.isBiometricEnabled())

            // The authorization URL has the BiometricUserID, and the server complains about another user.
            let browser = UserBrowser(device.server.users[1])
            let bob = try await start(on: device, browser: browser)
            try await browser.expectRefusal { try await bob.authorize() }
            let opened = try #require(await browser.opened.first?.removingPercentEncoding?.removingPercentEncoding)
            #expect(opened.contains("login_hint=https://authgear.com/login_hint?"), "\(opened)")
            #expect(opened.contains("type=user_id") && opened.contains("user_id=\(owner)"))
            #expect(try await bob.getLastUserID() == owner)
            #expect(try await bob.sessionState == .noSession)

            // The user disables biometric authentication, so that another user can log in. B has no key pair then.
            try await alice.authenticateBiometric()
            try await alice.logout()
            try await bob.authorize()
            #expect(try await bob.getLastUserID() != owner)
            #expect(try await bob.listBiometricKeys().isEmpty)
            await #expect(throws: login(.notEnabled)) { try await bob.authenticateBiometric() }
            #expect(try await bob.enabledBiometric().id != key.id)
        }
    }

    @Test func `a deployed server gets the biometric user as id_token_hint`() async throws {
        try await PortingDevice.with(["extensions": ["biometric_login_hint": false]]) { device in
            let alice = try await start(on: device)
            try await alice.authorize()
            try await alice.enabledBiometric()
            try await alice.logout(keepBiometric: true)
            let browser = UserBrowser(device.server.users[1])
            let bob = try await start(on: device, browser: browser)
            try await browser.expectRefusal { try await bob.authorize() }
            let opened = try #require(await browser.opened.first)
            #expect(opened.contains("id_token_hint=") && !opened.contains("login_hint=http"), "\(opened)")
        }
    }

    @Test(arguments: [nil, false, true])
    func `by default the settings page does not list biometric identities`(isListed: Bool?) async throws {
        let configuration: [String: any Sendable] =
            isListed.map { ["identity": ["biometric": ["list_enabled": $0]]] } ?? [:]
        try await PortingDevice.with(configuration) { device in
            let container = try await start(on: device)
            try await container.authorize()
            try await container.enabledBiometric()
            let page = try await UserBrowser(device.server.users[0]).settings("/settings", at: device.server.endpoint)
            #expect(page.contains("Logged in as"))
            #expect(page.contains("Biometric login") == (isListed ?? false))
        }
    }
}

// Errors compare by their code.
func login(_ code: LoginErrorCode) -> LoginError {
    LoginError(operation: "", code: code, reason: "", recovery: "")
}

private func keystore(_ code: KeystoreErrorCode) -> KeystoreError {
    KeystoreError(operation: "", code: code, reason: "", recovery: "")
}
