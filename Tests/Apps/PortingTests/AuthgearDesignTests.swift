import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The statements of Authgear's design document of biometric authentication, against a real server.
@Suite(.softwareTPM) @MainActor
struct AuthgearDesignTests {
    /// "The SDK stores the following things: 1. The keypair … per container, requiring biometric
    /// authentication to access.
    /// 2. The last logged in user ID … NOT requiring biometric authentication to access. 3. The
    ///   user ID of last biometric setup … NOT requiring biometric authentication to access."
    @Test func `only the use of the key pair requires user verification`() async throws {
        try await PortingDevice.with { device in
            let first = try await device.start()
            let userID = try await first.authorize().userInfo.userID
            try await first.enabledBiometric()
            try await first.logout(keepBiometric: true)

            // The user answers no prompt.
            let absent = try await device.start(pins: [])
            #expect(try await absent.getLastUserID() == userID)
            let keys = try await absent.listBiometricKeys()
            #expect(keys.map(\.userID) == [userID])
            await #expect(throws: (any Error).self) { try await absent.authenticateBiometric() }
            // The key pair is in the hardware, which checks the PIN.
            let (records, key) = (try await device.records(), try #require(keys.first))
            let stranger = ScriptedPresence(pins: "1111")
            await #expect(throws: keystore(.wrongProof)) {
                try await records.keystore.sign(
                    MessageDigest(sha256: [1]), with: key.key, for: PromptContext(reason: "sign"),
                    authorizedBy: stranger)
            }
            // Another container has no key pair.
            #expect(try await device.start(name: "other").listBiometricKeys().isEmpty)
        }
    }

    /// "For some reasons like the user is wearing a mask or gloves, biometric authentication is
    /// impossible, the application should perform the typical web-based authentication flow to
    /// authenticate the user."
    @Test func `user A can log in on the web while biometric authentication is enabled`()
        async throws
    {
        try await PortingDevice.with { device in
            let first = try await device.start()
            let userID = try await first.authorize().userInfo.userID
            let key = try await first.enabledBiometric()
            // "In order to have short session lifetime …, the keypair is used to both identify and
            // authenticate the user."
            try await first.clear()
            let browser = UserBrowser(device.server.users[0])
            let later = try await device.start(pins: [], browser: browser)
            #expect(try await later.authorize().userInfo.userID == userID)
            let opened = try #require(
                await browser.opened.first?.removingPercentEncoding?.removingPercentEncoding)
            #expect(opened.contains("user_id=\(userID)"), "\(opened)")
            #expect(try await later.isBiometricEnabled())
            #expect(try await later.listBiometricKeys().map(\.id) == [key.id])
            #expect(try await device.start().authenticateBiometric().userInfo.userID == userID)
        }
    }

    /// "If the user logs out, the current session is terminated, but biometric authentication is
    /// still available. … Next time the app is launched, the user can just use biometric
    /// authentication to login."
    @Test func `as in the HSBC app, biometric authentication is still available after a logout`()
        async throws
    {
        try await PortingDevice.with { device in
            let first = try await device.start(tokenStorage: .memory)
            let userID = try await first.authorize().userInfo.userID
            try await first.enabledBiometric()
            try await first.logout(keepBiometric: true)
            #expect(device.network.sent.last == "POST /oauth2/revoke")
            #expect(try await first.sessionState == .noSession)

            let absent = UserBrowser(device.server.users[0])
            let next = try await device.start(
                pins: [PortingDevice.pin], browser: absent, tokenStorage: .memory)
            #expect(try await next.getLastUserID() == userID)
            #expect(try await next.isBiometricEnabled())
            #expect(try await next.authenticateBiometric().userInfo.userID == userID)
            #expect(await absent.opened.isEmpty)
        }
    }

    @Test func `user B never reaches the key pair of user A`() async throws {
        try await PortingDevice.with { device in
            let alice = try await device.start()
            try await alice.authorize()
            let key = try await alice.enabledBiometric()
            let owner = try #require(try await alice.getLastUserID())
            // As in the HSBC app, logout ends the session, and biometric authentication is still
            // available.
            try await alice.logout(keepBiometric: true)
            await #expect(throws: login(.unauthenticated)) { try await alice.fetchUserInfo() }
            #expect(try await alice.isBiometricEnabled())

            // The authorization URL has the BiometricUserID, and the server complains about another
            // user.
            let browser = UserBrowser(device.server.users[1])
            let bob = try await device.start(browser: browser)
            try await browser.expectRefusal { try await bob.authorize() }
            let opened = try #require(
                await browser.opened.first?.removingPercentEncoding?.removingPercentEncoding)
            #expect(opened.contains("login_hint=https://authgear.com/login_hint?"), "\(opened)")
            #expect(opened.contains("type=user_id") && opened.contains("user_id=\(owner)"))
            #expect(try await bob.getLastUserID() == owner)
            #expect(try await bob.sessionState == .noSession)

            // The user disables biometric authentication, so that another user can log in. B has no
            // key pair then.
            try await alice.authenticateBiometric()
            try await alice.logout()
            try await bob.authorize()
            #expect(try await bob.getLastUserID() != owner)
            #expect(try await bob.listBiometricKeys().isEmpty)
            await #expect(throws: login(.notEnabled)) { try await bob.authenticateBiometric() }
            #expect(try await bob.enabledBiometric().id != key.id)
        }
    }

    @Test(arguments: [nil, false, true])
    func `by default the settings page does not list biometric identities`(isListed: Bool?)
        async throws
    {
        let configuration: [String: any Sendable] =
            isListed.map { ["identity": ["biometric": ["list_enabled": $0]]] } ?? [:]
        try await PortingDevice.with(configuration) { device in
            let container = try await device.start()
            try await container.authorize()
            try await container.enabledBiometric()
            let page = try await UserBrowser(device.server.users[0]).settings(
                "/settings", at: device.server.endpoint)
            #expect(page.contains("Logged in as"))
            #expect(page.contains("Biometric login") == (isListed ?? false))
        }
    }
}
