import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The six steps of the seed.
@Suite(.softwareTPM) struct DisableTests {
    private func enabled(_ bench: Bench, _ transport: (any HTTPTransport)? = nil) async throws
        -> Container
    {
        let container = try await bench.start(transport: transport)
        try await container.authorize()
        try await container.enableBiometric()
        return container
    }

    @Test func `disabling does not prompt`() async throws {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            let presence = ScriptedPresence([])
            try await bench.start(presence: presence).disableBiometric()
            #expect(presence.requests.isEmpty)
            #expect(await bench.identity.identities.isEmpty)
        }
    }

    @Test
    func
        `after a network failure it is disabled on the device, and calling again removes it on the server`()
        async throws
    {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await enabled(bench, wire)
            wire.append(.forward, .fail(noNetwork))
            await #expect(throws: login(.network)) { try await container.disableBiometric() }
            #expect(try await !container.isBiometricEnabled())
            #expect(await bench.identity.identities.count == 1)
            try await bench.start().disableBiometric()
            #expect(await bench.identity.identities.isEmpty)
            await #expect(throws: login(.notEnabled)) { try await container.disableBiometric() }
        }
    }

    @Test(arguments: [false, true])
    func `a refused removal says that the login is disabled here, and what to do`(isLogout: Bool)
        async throws
    {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await enabled(bench, wire)
            wire.append(
                .forward,
                .json(#"{"error":"not_found","error_description":"no device"}"#, status: .notFound))
            let error = await #expect(throws: LoginError.self) {
                if isLogout {
                    try await container.logout()
                } else {
                    try await container.disableBiometric()
                }
            }
            #expect(error?.code == .oauthError)
            #expect(
                error?.reason
                    == "biometric login is disabled on this device, and the server did not remove the key: the server refused with "
                    + "‘not_found’ (no device)")
            #expect(error?.recoveryAction.actions == [isLogout ? .forceLogout : .forceDisable])
            #expect(try await container.sessionState == .authenticated)
            #expect(try await !container.isBiometricEnabled())
            // What the advice says.
            try await container.disableBiometric(force: true)
            try await container.authorize()
            #expect(await bench.identity.identities.isEmpty)
        }
    }

    @Test func `a lost response leads to identityNotFound, then to notEnabled`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await enabled(bench, wire)
            wire.append(.forward, .loseResponse(noNetwork))
            await #expect(throws: login(.network)) { try await container.disableBiometric() }
            #expect(await bench.identity.identities.isEmpty)
            await #expect(throws: login(.identityNotFound)) {
                try await container.disableBiometric()
            }
            await #expect(throws: login(.notEnabled)) { try await container.disableBiometric() }
        }
    }

    @Test func `without a session nothing is changed`() async throws {
        try await Bench.with { bench in
            let container = try await enabled(bench)
            try await container.logout(keepBiometric: true)
            await #expect(throws: login(.unauthenticated)) {
                try await container.disableBiometric()
            }
            #expect(try await container.isBiometricEnabled())
            try await container.authenticateBiometric()
            try await container.disableBiometric()
            #expect(await bench.identity.identities.isEmpty)
        }
    }

    /// The used process has an access token and the server's metadata in memory.
    @Test(arguments: [true, false], [true, false])
    func `without a network nothing is changed, in a new and in a used process`(
        isUsed: Bool, hasRemovalEndpoint: Bool
    ) async throws {
        try await Bench.with(.init(hasRemovalEndpoint: hasRemovalEndpoint)) { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let used = try await enabled(bench, wire)
            let container = isUsed ? used : try await bench.start(transport: wire)
            wire.append(.fail(noNetwork))
            await #expect(throws: login(.network)) { try await container.disableBiometric() }
            wire.append(.fail(noNetwork))
            await #expect(throws: login(.network)) { try await container.logout() }
            #expect(try await container.isBiometricEnabled())
            #expect(try await container.sessionState == .authenticated)
            #expect(await bench.identity.refreshTokens.count == 1)
            try await container.authenticateBiometric()
            try await container.logout()
            #expect(try await !container.isBiometricEnabled())
            #expect(try await container.sessionState == .noSession)
            #expect(await bench.identity.identities.isEmpty == hasRemovalEndpoint)
        }
    }

    @Test func `a logout continues after a network that failed in the middle`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await enabled(bench, wire)
            wire.append(.forward, .forward, .fail(noNetwork))
            await #expect(throws: login(.network)) { try await container.logout() }
            #expect(try await container.sessionState == .authenticated)
            try await container.logout()
            #expect(try await container.sessionState == .noSession)
            #expect(await bench.identity.refreshTokens.isEmpty)
            #expect(await bench.identity.identities.isEmpty)
        }
    }

    @Test
    func `force disables on this device only, and the next call removes the key from the server`()
        async throws
    {
        try await Bench.with { bench in
            let first = try await enabled(bench)
            let wire = RecordingTransport()
            let container = try await bench.start(transport: wire, keystore: AbsentKeystore())
            try await container.disableBiometric(force: true)
            #expect(wire.recordings.isEmpty)
            #expect(try await !container.isBiometricEnabled())
            try await container.disableBiometric(force: true)
            #expect(await bench.identity.identities.count == 1)
            let key = try await first.enableBiometric()
            #expect(await bench.identity.identities.keys.sorted() == [key.id.rawValue])
        }
    }

    @Test(arguments: [PausingTransport.Side.before, .after])
    func `a crash during the request leaves it disabled on the device`(side: PausingTransport.Side)
        async throws
    {
        try await Bench.with { bench in
            let pausing = PausingTransport(
                bench.identity, at: "/api/identity/biometric/remove", side)
            let victim = try await enabled(bench, pausing)
            let attempt = Task { try await victim.disableBiometric() }
            await pausing.reached()
            let container = try await bench.start()
            #expect(try await !container.isBiometricEnabled())
            await #expect(throws: login(.notEnabled)) {
                try await container.authenticateBiometric()
            }
            switch side {
            case .before: try await container.disableBiometric()
            case .after:
                await #expect(throws: login(.identityNotFound)) {
                    try await container.disableBiometric()
                }
            }
            #expect(await bench.identity.identities.isEmpty)
            await pausing.resume()
            _ = await attempt.result
        }
    }
}
