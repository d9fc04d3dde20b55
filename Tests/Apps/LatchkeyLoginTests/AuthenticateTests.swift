import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyTesting
import Testing

@Suite(.softwareTPM) struct AuthenticateTests {
    /// A container that is enabled and whose session is over.
    private func enabled(_ bench: Bench, policy: AccessPolicy = .pin) async throws -> BiometricKey {
        let container = try await bench.start(policy: policy)
        try await container.authorize()
        let key = try await container.enableBiometric()
        try await container.logout(keepBiometric: true)
        return key
    }

    @Test func `without a key there is no prompt and no request`() async throws {
        try await Bench.with { bench in
            let (presence, wire) = (ScriptedPresence([]), RecordingTransport())
            let container = try await bench.start(presence: presence, transport: wire)
            await #expect(throws: login(.notEnabled)) {
                try await container.authenticateBiometric()
            }
            #expect(presence.requests.isEmpty)
            #expect(wire.recordings.isEmpty)
        }
    }

    @Test func `enabling prompts once for a new PIN, authenticating once for the PIN`() async throws
    {
        try await Bench.with { bench in
            let presence = ScriptedPresence(pins: Bench.pin, Bench.pin)
            let container = try await bench.start(presence: presence)
            try await container.authorize()
            try await container.enableBiometric()
            #expect(presence.requests.map(\.purpose) == [.new])
            try await container.authenticateBiometric()
            #expect(presence.requests.map(\.purpose) == [.new, .current])
            #expect(presence.requests.last?.context.reason == "log in to identity.test")
        }
    }

    @Test func `a declined prompt changes nothing`() async throws {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            let container = try await bench.start(presence: ScriptedPresence([.decline]))
            await #expect(throws: keystore(.cancelled)) {
                try await container.authenticateBiometric()
            }
            #expect(try await container.isBiometricEnabled())
            #expect(try await container.sessionState == .noSession)
        }
    }

    @Test
    func
        `a key that was removed on the server is removed from the device after a second attempt, with one prompt`()
        async throws
    {
        try await Bench.with { bench in
            let key = try await enabled(bench)
            await bench.identity.removeIdentity(key.id.rawValue)
            let presence = ScriptedPresence(pins: Bench.pin)
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(presence: presence, transport: wire)
            let error = await #expect(throws: LoginError.self) {
                try await container.authenticateBiometric()
            }
            #expect(error?.code == .identityNotFound)
            #expect(
                error?.oauthError
                    == OAuthError(error: "invalid_grant", description: "InvalidCredentials"))
            #expect(presence.requests.count == 1)
            #expect(wire.recordings.count { $0.request.path == "/oauth2/challenge" } == 2)
            let challenges = wire.recordings.compactMap { $0.jwt?.payload["challenge"] as? String }
            #expect(Set(challenges).count == 2)
            #expect(try await !container.isBiometricEnabled())
            #expect(try await container.listBiometricKeys().isEmpty)
            #expect(try await container.lastUserID == "user-a")
            await #expect(throws: login(.notEnabled)) {
                try await container.authenticateBiometric()
            }
        }
    }

    @Test func `a challenge that the server lost causes a second attempt and removes no key`()
        async throws
    {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            await bench.identity.set { $0.losesChallenges = 1 }
            let presence = ScriptedPresence(pins: Bench.pin)
            let container = try await bench.start(presence: presence)
            #expect(try await container.authenticateBiometric().userInfo.userID == "user-a")
            #expect(presence.requests.count == 1)
        }
    }

    @Test func `an expired challenge is not sent, and the key is kept`() async throws {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            await bench.identity.set { $0.challengeLife = -1 }
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            await #expect(throws: login(.timedOut)) { try await container.authenticateBiometric() }
            #expect(wire.recordings.count { $0.request.path == "/oauth2/challenge" } == 2)
            #expect(wire.recordings.allSatisfy { $0.request.path != "/oauth2/token" })
            #expect(try await container.isBiometricEnabled())
        }
    }

    @Test(arguments: [3_600.0, -7_200, 86_400])
    func `a wrong clock causes no prompt, and the key is kept`(offset: TimeInterval) async throws {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            let presence = ScriptedPresence([])
            let container = try await bench.start(
                presence: presence, now: { Date().addingTimeInterval(offset) })
            let error = await #expect(throws: LoginError.self) {
                try await container.authenticateBiometric()
            }
            #expect(error?.code == .clockSkew && error?.recovery.contains("key is kept") == true)
            #expect(presence.requests.isEmpty)
            #expect(try await container.isBiometricEnabled())
        }
    }

    @Test func `a refusal while the clock is near the limit does not remove the key`() async throws
    {
        try await Bench.with { bench in
            let key = try await enabled(bench)
            await bench.identity.removeIdentity(key.id.rawValue)
            let container = try await bench.start(now: { Date().addingTimeInterval(270) })
            await #expect(throws: login(.clockSkew)) { try await container.authenticateBiometric() }
            #expect(try await container.isBiometricEnabled())
        }
    }

    @Test func `a server that sends no date can't remove a key`() async throws {
        try await Bench.with { bench in
            let key = try await enabled(bench)
            await bench.identity.removeIdentity(key.id.rawValue)
            await bench.identity.set { $0.saysItsTime = false }
            let container = try await bench.start()
            let error = await #expect(throws: LoginError.self) {
                try await container.authenticateBiometric()
            }
            #expect(error?.code == .oauthError)
            #expect(error?.oauthError?.description == "InvalidCredentials")
            #expect(try await container.isBiometricEnabled())
        }
    }

    @Test(arguments: [
        (429, "x_rate_limited", LoginError.Code.rateLimited), (400, "invalid_client", .oauthError),
        (400, "unauthorized_client", .oauthError), (500, "server_error", .oauthError),
        (400, "invalid_scope", .oauthError), (400, "invalid_request", .oauthError),
    ])
    func `no other refusal removes the key`(status: Int, name: String, code: LoginError.Code)
        async throws
    {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            let wire = RecordingTransport(
                [
                    .forward, .forward,
                    .json(
                        #"{"error":"\#(name)","error_description":"x"}"#,
                        status: .init(code: status)),
                ],
                forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            let error = await #expect(throws: LoginError.self) {
                try await container.authenticateBiometric()
            }
            #expect(error?.code == code)
            #expect(error?.oauthError?.error == name)
            #expect(error?.httpStatus == status)
            #expect(wire.recordings.count == 3)
            #expect(try await container.isBiometricEnabled())
        }
    }

    @Test func `tokens of a login that can't be finished are revoked and the old session stays`()
        async throws
    {
        try await Bench.with { bench in
            let first = try await bench.start()
            try await first.authorize()
            try await first.enableBiometric()
            let tokens = await Set(bench.identity.refreshTokens.keys)
            let wire = RecordingTransport(
                [.forward, .forward, .forward, .fail(noNetwork)], forwardingTo: bench.identity)
            let second = try await bench.start(transport: wire)
            await #expect(throws: login(.network)) { try await second.authenticateBiometric() }
            #expect(wire.summary.last == "POST /oauth2/revoke")
            #expect(await Set(bench.identity.refreshTokens.keys) == tokens)
            #expect(try await second.fetchUserInfo().userID == "user-a")
        }
    }

    @Test func `an existing session is replaced`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            try await container.enableBiometric()
            let before = try await container.accessToken
            try await container.authenticateBiometric()
            #expect(try await container.accessToken != before)
            let another = try await bench.start()
            #expect(try await another.fetchUserInfo().userID == "user-a")
        }
    }
}
