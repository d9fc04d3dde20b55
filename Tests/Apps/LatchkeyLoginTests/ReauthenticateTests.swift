import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// New authentications of the session's user, against a server like the deployed ones.
@Suite(.softwareTPM) struct ReauthenticateTests {
    private static let hour = 3_600.0

    /// A container whose user logged in an hour ago.
    private func loggedIn(
        _ bench: Bench, presence: any PresenceAuthority = ScriptedPresence([]),
        policy: AccessPolicy = .pin, keystore: (any Keystore)? = nil, isEnabled: Bool = false
    ) async throws -> (container: Container, authTime: Date) {
        let container = try await bench.start(
            presence: presence, policy: policy, keystore: keystore)
        await bench.identity.set { $0.loginAge = Int(Self.hour) }
        try await container.authorize()
        await bench.identity.set { $0.loginAge = 0 }
        if isEnabled { try await container.enableBiometric(reason: "use your PIN here") }
        return (container, try #require(try await container.authTime))
    }

    /// Whether a time is that of a new authentication.
    private func isNew(_ time: Date?) -> Bool {
        time.map { abs($0.timeIntervalSinceNow) < Self.hour / 2 } ?? false
    }

    @Test func `the key authenticates the user with the app's reason and without a browser`()
        async throws
    {
        try await Bench.with { bench in
            let presence = ScriptedPresence(pins: Bench.pin, Bench.pin)
            let (container, before) = try await loggedIn(
                bench, presence: presence, isEnabled: true)
            #expect(!isNew(before))
            let pages = bench.browser.visited.count
            let result = try await container.reauthenticate(.init(reason: "pay 100 €"))
            #expect(result.userInfo.userID == "user-a")
            #expect(try await isNew(container.authTime))
            #expect(bench.browser.visited.count == pages)
            #expect(presence.asked.map(\.reason) == ["use your PIN here", "pay 100 €"])
            #expect(try await container.fetchUserInfo().userID == "user-a")
        }
    }

    @Test(
        .softwareToken(label: "login", userPIN: Bench.pin), .requires(program: "softhsm2-util"))
    func `an earlier proof is not a new authentication`() async throws {
        try await Bench.with { bench in
            let policy = try #require(AccessPolicy(.pin, reuseSeconds: 300))
            let presence = ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 12))
            let (container, _) = try await loggedIn(
                bench, presence: presence, policy: policy,
                keystore: PKCS11Keystore(uri: SoftwareToken.current.uri), isEnabled: true)
            try await container.authenticateBiometric()
            let prompts = presence.requests.count
            try await container.authenticateBiometric()
            #expect(presence.requests.count == prompts)
            try await container.reauthenticate()
            #expect(presence.requests.count == prompts + 1)
        }
    }

    @Test(arguments: [false, true])
    func `the browser authenticates the user, and the session keeps its refresh token`(
        isEnabled: Bool
    ) async throws {
        try await Bench.with { bench in
            let presence = ScriptedPresence(pins: Bench.pin)
            let (container, before) = try await loggedIn(
                bench, presence: presence, isEnabled: isEnabled)
            let (tokens, hint) = (
                await bench.identity.refreshTokens, try await container.idTokenHint
            )
            let result = try await container.reauthenticate(
                .init(usesBiometric: false, authorization: .init(uiLocales: ["de"])))
            #expect(result.userInfo.userID == "user-a")
            #expect(try await isNew(container.authTime))
            #expect(!isNew(before))
            #expect(await bench.identity.refreshTokens == tokens)
            #expect(try await container.idTokenHint != hint)
            let page = try #require(bench.browser.visited.last)
            #expect(page["prompt"] == "login")
            #expect(page["max_age"] == "0")
            #expect(page["scope"] == "openid https://authgear.com/scopes/full-access")
            #expect(page["id_token_hint"]?.split(separator: ".").count == 3)
            #expect(page["login_hint"] == nil)
            #expect(page["ui_locales"] == "de")
            // The server has the time: the session has it after a restart.
            let next = try await bench.start()
            #expect(try await next.authTime == before)
            try await next.refreshIDToken()
            #expect(try await isNew(next.authTime))
        }
    }

    @Test func `another user is refused and nothing changes`() async throws {
        try await Bench.with { bench in
            let (container, before) = try await loggedIn(bench)
            let tokens = await bench.identity.refreshTokens
            await bench.identity.setVisitor("user-b")
            await #expect(throws: login(.userMismatch)) { try await container.reauthenticate() }
            #expect(try await container.authTime == before)
            #expect(try await container.lastUserID == "user-a")
            #expect(await bench.identity.refreshTokens == tokens)
            #expect(try await container.fetchUserInfo().userID == "user-a")
        }
    }

    @Test func `a server that ignores max_age is refused, and a permitted age is accepted`()
        async throws
    {
        try await Bench.with { bench in
            let (container, _) = try await loggedIn(bench)
            await bench.identity.set { $0.loginAge = Int(Self.hour) }
            for age in [0, Self.hour / 2] {
                await #expect(throws: login(.invalidToken)) {
                    try await container.reauthenticate(.init(maximumAge: .seconds(age)))
                }
            }
            #expect(bench.browser.visited.last?["max_age"] == "1800")
            #expect(bench.browser.visited.last?["prompt"] == nil)
            #expect(try await !isNew(container.authTime))
            try await container.reauthenticate(.init(maximumAge: .seconds(2 * Self.hour)))
        }
    }

    /// With the key there is no nonce: an earlier token that has not expired would be accepted.
    @Test(arguments: [true, false], [true, false])
    func `an ID token from before the request is refused`(usesKey: Bool, saysItsTime: Bool)
        async throws
    {
        try await Bench.with { bench in
            let presence = ScriptedPresence(pins: Bench.pin, Bench.pin)
            let (container, before) = try await loggedIn(
                bench, presence: presence, isEnabled: true)
            await bench.identity.set {
                $0.saysItsTime = saysItsTime
                $0.idTokenAge = 200
            }
            await #expect(throws: login(.invalidToken)) {
                try await container.reauthenticate(.init(usesBiometric: usesKey))
            }
            #expect(try await container.authTime == before)
        }
    }

    @Test(arguments: [Bool?.none, false])
    func `a server that cannot authenticate the user again shows no page`(claim: Bool?)
        async throws
    {
        try await Bench.with(.init(canReauthenticate: claim)) { bench in
            let (container, _) = try await loggedIn(bench)
            #expect(try await !container.canReauthenticate)
            let pages = bench.browser.visited.count
            await #expect(throws: login(.cannotReauthenticate)) {
                try await container.reauthenticate()
            }
            #expect(bench.browser.visited.count == pages)
            #expect(try await container.sessionState == .authenticated)
        }
    }

    @Test func `a server without the grant for ID tokens is reported in its words`() async throws {
        try await Bench.with(.init(issuesIDTokens: false)) { bench in
            let (container, _) = try await loggedIn(bench)
            #expect(try await container.canReauthenticate)
            let error = await #expect(throws: LoginError.self) {
                try await container.reauthenticate()
            }
            #expect(error?.oauthError?.error == "unsupported_grant_type")
            #expect(try await container.sessionState == .authenticated)
        }
    }

    @Test func `a cancelled authentication changes nothing, and opens no other page`()
        async throws
    {
        try await Bench.with { bench in
            let (_, before) = try await loggedIn(bench)
            let browser = AnsweringBrowser { "error=cancel&state=\($0["state"] ?? "")" }
            let other = try await bench.start(browser: browser)
            await #expect(throws: login(.cancelled)) { try await other.reauthenticate() }
            #expect(try await other.sessionState == .authenticated)
            try await bench.start().enableBiometric()
            let declining = try await bench.start(presence: ScriptedPresence([.decline]))
            let pages = bench.browser.visited.count
            await #expect(throws: keystore(.cancelled)) { try await declining.reauthenticate() }
            #expect(bench.browser.visited.count == pages)
            #expect(try await declining.authTime == before)
        }
    }

    @Test func `without a session there is no request and no prompt`() async throws {
        try await Bench.with { bench in
            let (container, _) = try await loggedIn(
                bench, presence: ScriptedPresence(pins: Bench.pin), isEnabled: true)
            await #expect(throws: login(.invalidInput)) {
                try await container.reauthenticate(.init(maximumAge: .seconds(-1)))
            }
            try await container.logout(keepBiometric: true)
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let presence = ScriptedPresence(pins: Bench.pin)
            let other = try await bench.start(presence: presence, transport: wire)
            await #expect(throws: login(.unauthenticated)) { try await other.reauthenticate() }
            #expect(wire.recordings.isEmpty)
            #expect(presence.requests.isEmpty)
            #expect(try await other.authTime == nil)
            #expect(try await other.idTokenHint == nil)
            #expect(try await !other.canReauthenticate)
        }
    }

    @Test func `a session that the server has ended ends`() async throws {
        try await Bench.with { bench in
            let (container, _) = try await loggedIn(bench)
            await bench.identity.endAllSessions()
            await #expect(throws: LoginError.self) { try await container.reauthenticate() }
            #expect(try await container.sessionState == .noSession)
        }
    }
}
