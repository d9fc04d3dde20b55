import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@Suite(.softwareTPM) struct SessionTests {
    @Test func `an access token is used for nine tenths of its lifetime`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let clock = SettableClock(stoppedAt: Date())
            let container = try await bench.start(transport: wire, now: { clock.now })
            try await container.authorize()
            let token = try await container.accessToken
            clock.advance(by: 1_619)
            #expect(try await container.accessToken == token)
            clock.advance(by: 2)
            await bench.identity.set { $0.clockOffset = 1_621 }
            #expect(try await container.accessToken != token)
            #expect(wire.summary.count { $0 == "POST /oauth2/token refresh_token" } == 1)
        }
    }

    @Test func `concurrent tasks share one refresh`() async throws {
        try await Bench.with(.init(rotatesRefreshTokens: true)) { bench in
            try await bench.start().authorize()
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            let tokens = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<20 { group.addTask { try await container.accessToken } }
                return try await group.reduce(into: Set()) { $0.insert($1) }
            }
            #expect(tokens.count == 1)
            #expect(wire.summary.count { $0 == "POST /oauth2/token refresh_token" } == 1)
        }
    }

    @Test func `a rotated refresh token is stored before the access token is given out`()
        async throws
    {
        try await Bench.with(.init(rotatesRefreshTokens: true)) { bench in
            try await bench.start().authorize()
            for _ in 0..<3 {
                let container = try await bench.start()
                #expect(try await container.fetchUserInfo().userID == "user-a")
            }
            #expect(await bench.identity.refreshTokens.count == 1)
        }
    }

    @Test func `a refresh whose ID token is wrong keeps the refresh token that came with it`()
        async throws
    {
        try await Bench.with(.init(rotatesRefreshTokens: true)) { bench in
            try await bench.start().authorize()
            await bench.identity.set { $0.issuer = "https://elsewhere.test" }
            let container = try await bench.start()
            await #expect(throws: login(.invalidToken)) { try await container.fetchUserInfo() }
            await bench.identity.set { $0.issuer = nil }
            #expect(try await container.fetchUserInfo().userID == "user-a")
            #expect(try await bench.start().fetchUserInfo().userID == "user-a")
        }
    }

    @Test func `a process that wants to refresh waits for another's refresh, and both continue`()
        async throws
    {
        try await Bench.with(.init(rotatesRefreshTokens: true)) { bench in
            try await bench.start().authorize()
            let pausing = PausingTransport(bench.identity, at: "/oauth2/token", .before)
            let slow = try await bench.start(transport: pausing)
            let attempt = Task { try await slow.fetchUserInfo() }
            await pausing.reached()
            let other = try await bench.start()
            let waiting = Task { try await other.fetchUserInfo() }
            await pausing.resume()
            #expect(try await attempt.value.userID == "user-a")
            #expect(try await waiting.value.userID == "user-a")
            #expect(try await slow.sessionState == .authenticated)
            #expect(await bench.identity.refreshTokens.count == 1)
        }
    }

    @Test
    func `a crash between the server's rotation and the store ends the session and keeps the key`()
        async throws
    {
        try await Bench.with(.init(rotatesRefreshTokens: true)) { bench in
            let first = try await bench.start()
            try await first.authorize()
            try await first.enableBiometric()
            let pausing = PausingTransport(bench.identity, at: "/oauth2/token", .after)
            let victim = try await bench.start(transport: pausing)
            let attempt = Task { try await victim.accessToken }
            await pausing.reached()
            await pausing.die()
            await #expect(throws: (any Error).self) { try await attempt.value }
            let container = try await bench.start()
            try await container.refreshAccessTokenIfNeeded()
            #expect(try await container.sessionState == .noSession)
            #expect(try await container.authenticateBiometric().userInfo.userID == "user-a")
        }
    }

    @Test func `a logout during a refresh is not undone by it`() async throws {
        try await Bench.with(.init(rotatesRefreshTokens: true)) { bench in
            try await bench.start().authorize()
            let pausing = PausingTransport(bench.identity, at: "/oauth2/token", .after)
            let slow = try await bench.start(transport: pausing)
            let attempt = Task { try await slow.accessToken }
            await pausing.reached()
            try await bench.start().clear()
            await pausing.resume()
            await #expect(throws: login(.unauthenticated)) { try await attempt.value }
            #expect(try await slow.sessionState == .noSession)
            #expect(await bench.identity.refreshTokens.isEmpty)
        }
    }

    @Test(arguments: [
        (#"{"sub":42}"#, "‘sub’ has the wrong type (from ‘/oauth2/userinfo’)"),
        (#"{"id":"u"}"#, "‘sub’ is missing (from ‘/oauth2/userinfo’)"),
        (#"{"sub":null}"#, "‘sub’ is null"), (#"{"sub":""}"#, "‘sub’ has an invalid value"),
        ("[]", "the JSON has the wrong type"), ("<html>", "the text is not valid JSON"),
        (#"{"sub":"eve"}"#, "‘sub’ is not that of the session"),
    ])
    func `an error about the user info names the member and the endpoint`(
        body: String, cause: String
    ) async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            wire.append(.json(body))
            let error = await #expect(throws: LoginError.self) {
                try await container.fetchUserInfo()
            }
            #expect(error?.code == .invalidResponse)
            #expect(error?.reason.contains(cause) == true, "\(error?.reason ?? "")")
            #expect(error?.recovery.contains("Authgear") == false)
        }
    }

    @Test func `a refused request for the user's data says that the session has ended`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            await bench.identity.endAllSessions()
            for hasEnded in [true, false] {
                let error = await #expect(throws: LoginError.self) {
                    if hasEnded {
                        _ = try await container.fetchUserInfo()
                    } else {
                        try await container.refreshIDToken()
                    }
                }
                #expect(error?.code == .oauthError)
                #expect(error?.recovery.contains("session on this device has ended") == true)
                #expect(try await container.sessionState == .noSession)
                try await container.authorize()
                await bench.identity.endAllSessions()
            }
        }
    }

    @Test func `an address without metadata is named`() async throws {
        for body in ["<html>", #"{"error":"not_found"}"#] {
            try await Bench.with { bench in
                let absent = RecordingTransport.Step.json(body, status: .notFound)
                let wire = RecordingTransport([absent, absent], forwardingTo: bench.identity)
                let container = try await bench.start(
                    transport: wire, endpoint: FakeIdentity.address + "/auth/")
                let error = await #expect(throws: LoginError.self) {
                    try await container.authorize()
                }
                #expect(
                    error?.reason
                        == "there is no metadata of a server at ‘https://identity.test/auth’ (status 404)"
                )
                #expect(error?.recovery.hasPrefix("Check the server's address") == true)
                #expect(error?.httpStatus == 404)
            }
        }
    }

    @Test func `a session that the server has ended ends without an error`() async throws {
        try await Bench.with { bench in
            try await bench.start().authorize()
            await bench.identity.endAllSessions()
            let container = try await bench.start()
            var changes = try await container.changes().makeAsyncIterator()
            try await container.refreshAccessTokenIfNeeded()
            #expect(try await container.sessionState == .noSession)
            #expect(await changes.next()?.reason == .foundToken)
            #expect(await changes.next()?.reason == .invalid)
            await #expect(throws: login(.unauthenticated)) { try await container.fetchUserInfo() }
        }
    }

    @Test func `a failed refresh keeps the session`() async throws {
        try await Bench.with { bench in
            try await bench.start().authorize()
            let wire = RecordingTransport(
                [.forward, .fail(noNetwork)], forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            await #expect(throws: login(.network)) {
                try await container.refreshAccessTokenIfNeeded()
            }
            #expect(try await container.sessionState == .authenticated)
            try await container.refreshAccessTokenIfNeeded()
        }
    }

    /// The server's requirement is newer than the key that opened the session.
    @Test func `a refresh with a key that lacks the required proof keeps the session, and says so`()
        async throws
    {
        try await Bench.with { bench in
            try await bench.start().authorize()
            let wire = RecordingTransport(
                [
                    .forward,
                    .json(#"{"error":"attestation_required"}"#, status: .badRequest),
                    .json(
                        #"{"error":"attestation_refused","reason":"unknownApprovalKey"}"#,
                        status: .badRequest),
                ], forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            for words in ["requires a proof", "does not know this machine's presence broker"] {
                let error = await #expect(throws: LoginError.self) {
                    try await container.refreshAccessTokenIfNeeded()
                }
                #expect(error?.code == .refused && error?.code.commonCode == .refused)
                #expect(error?.reason.contains(words) == true, "\(error?.reason ?? "")")
            }
            #expect(try await container.sessionState == .authenticated)
            try await container.refreshAccessTokenIfNeeded()
        }
    }

    @Test func `an access token that the server has ended ends the session`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            await bench.identity.forgetAccessTokens()
            let error = await #expect(throws: LoginError.self) {
                try await container.fetchUserInfo()
            }
            #expect(error?.httpStatus == 401)
            #expect(try await container.sessionState == .noSession)
        }
    }

    @Test func `every change is reported with its reason`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            var changes = try await container.changes().makeAsyncIterator()
            try await container.authorize()
            try await container.enableBiometric()
            try await container.authenticateBiometric()
            try await container.clear()
            try await container.authenticateBiometric()
            try await container.logout()
            try await container.refreshAccessTokenIfNeeded()
            var reasons: [SessionStateChange.Reason?] = []
            for _ in 0..<6 { reasons.append(await changes.next()?.reason) }
            #expect(
                reasons == [
                    .noToken, .authenticated, .authenticated, .clear, .authenticated, .logout,
                ])
            #expect(await changes.next()?.reason == .noToken)
        }
    }

    @Test(arguments: [ContainerOperation.authorize, .authenticate, .logoutKeepingKey, .refresh])
    func `a container that keeps tokens in memory revokes and deletes the stored session`(
        operation: ContainerOperation
    ) async throws {
        try await Bench.with { bench in
            let first = try await bench.start()
            try await first.authorize()
            try await first.enableBiometric()
            let stored = try #require(await bench.identity.refreshTokens.keys.first)
            let container = try await bench.start(tokenStorage: .memory)
            try await operation.run(container)
            #expect(await bench.identity.refreshTokens[stored] == nil)
            #expect(try await bench.records().metadata("login.session") == nil)
            #expect(try await bench.start().sessionState == .noSession)
            #expect(try await container.isBiometricEnabled())
        }
    }

    @Test func `without a network the stored session waits, and clear deletes it`() async throws {
        try await Bench.with { bench in
            try await bench.start().authorize()
            let wire = RecordingTransport([.fail(noNetwork)], forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire, tokenStorage: .memory)
            await #expect(throws: login(.network)) {
                try await container.refreshAccessTokenIfNeeded()
            }
            #expect(try await bench.records().metadata("login.session") != nil)
            let before = wire.recordings.count
            try await container.clear()
            #expect(try await bench.records().metadata("login.session") == nil)
            #expect(wire.recordings.count == before)
        }
    }

    @Test func `a session whose revocation the server refuses does not stay on the disk`()
        async throws
    {
        try await Bench.with { bench in
            try await bench.start().authorize()
            let wire = RecordingTransport(
                [.forward, .json("{}", status: .notFound)], forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire, tokenStorage: .memory)
            try await container.refreshAccessTokenIfNeeded()
            #expect(wire.recordings.count == 2)
            #expect(try await bench.records().metadata("login.session") == nil)
        }
    }

    @Test func `the end of a session deletes the user's name and keeps the id`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            for end in [
                { try await container.clear() },
                { try await container.logout() },
                { try await container.logout(force: true) },
                {
                    await bench.identity.endAllSessions()
                    try await bench.start().refreshAccessTokenIfNeeded()
                },
            ] as [() async throws -> Void] {
                try await container.authorize()
                #expect(try await ContainerStatus(of: bench.records()).lastUserName != nil)
                try await end()
                #expect(try await ContainerStatus(of: bench.records()).lastUserName == nil)
                #expect(try await container.lastUserID == "user-a")
            }
        }
    }
}

@Suite(.softwareTPM) struct LogoutTests {
    @Test
    func
        `an earlier verification is not reused after a session ended or biometric login was disabled`()
        async throws
    {
        try await Bench.with { bench in
            let keystore = CountingKeystore(
                TPMKeystore(tcti: bench.tpm.tcti, anchors: MemoryTrustAnchors()))
            let container = try await bench.start(keystore: keystore)
            try await container.authorize()
            try await container.enableBiometric()
            for end in [
                { try await container.clear() },
                { try await container.logout(keepBiometric: true) },
                { try await container.disableBiometric(force: true) },
            ] as [() async throws -> Void] {
                let before = keystore.reuseEndings
                try await end()
                #expect(keystore.reuseEndings == before + 1)
                if try await container.isBiometricEnabled() {
                    try await container.authenticateBiometric()
                }
            }
        }
    }

    @Test func `an error of the server keeps the session; force removes it`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            wire.append(.json("{}", status: .internalServerError))
            await #expect(throws: login(.unexpectedStatus)) { try await container.logout() }
            #expect(try await container.sessionState == .authenticated)
            wire.append(.json("{}", status: .internalServerError))
            try await container.logout(force: true)
            #expect(try await container.sessionState == .noSession)
        }
    }

    @Test func `force logs out without server and hardware`() async throws {
        try await Bench.with { bench in
            let first = try await bench.start()
            try await first.authorize()
            try await first.enableBiometric()
            let container = try await bench.start(
                transport: RecordingTransport(), keystore: AbsentKeystore())
            try await container.logout(force: true)
            #expect(try await container.sessionState == .noSession)
            #expect(try await !container.isBiometricEnabled())
        }
    }

    @Test func `a pending removal on the server does not stop a logout`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            try await container.enableBiometric()
            try await container.disableBiometric(force: true)
            try await container.clear()
            try await container.logout()
            #expect(try await container.sessionState == .noSession)
        }
    }

    @Test
    func
        `a logout without a server session deletes the key, and the next login removes it from the server`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            try await container.enableBiometric()
            await bench.identity.endAllSessions()
            try await container.logout()
            #expect(try await container.sessionState == .noSession)
            #expect(try await !container.isBiometricEnabled())
            #expect(await bench.identity.identities.count == 1)
            // A second call does nothing, also in another program.
            try await container.logout()
            try await bench.start().logout()
            await bench.identity.setVisitor("user-b")
            #expect(try await container.authorize().userInfo.userID == "user-b")
            #expect(await bench.identity.identities.count == 1)
            try await container.logout()
            await bench.identity.setVisitor("user-a")
            try await container.authorize()
            #expect(await bench.identity.identities.isEmpty)
        }
    }

    @Test func `a logout succeeds after another call has found that the server ended the session`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            try await container.enableBiometric()
            await bench.identity.endAllSessions()
            await #expect(throws: LoginError.self) { try await container.fetchUserInfo() }
            #expect(try await container.sessionState == .noSession)
            #expect(try await container.isBiometricEnabled())
            try await container.logout()
            #expect(try await !container.isBiometricEnabled())
            #expect(await bench.identity.identities.count == 1)
            await bench.identity.setVisitor("user-b")
            #expect(try await container.authorize().userInfo.userID == "user-b")
            try await container.logout()
            await bench.identity.setVisitor("user-a")
            try await container.authorize()
            #expect(await bench.identity.identities.isEmpty)
        }
    }

    @Test func `a key that the server has already removed does not stop a logout`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            let key = try await container.enableBiometric()
            await bench.identity.removeIdentity(key.id.rawValue)
            try await container.logout()
            #expect(try await container.sessionState == .noSession)
            #expect(try await !container.isBiometricEnabled())
        }
    }
}
