import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@Suite(.softwareTPM) struct EnableTests {
    @Test(arguments: [TokenStorage.persistent, .memory])
    func `enabling again is reported, and does not prompt, send a request or use the hardware`(
        _ storage: TokenStorage
    ) async throws {
        try await Bench.with { bench in
            let presence = ScriptedPresence(pins: Bench.pin)
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let store = try await RecordStore(directory: bench.directory.path)
            let keystore = CountingKeystore(TPMKeystore(tcti: bench.tpm.tcti, anchors: store))
            let container = try await bench.start(
                presence: presence, transport: wire, tokenStorage: storage, policy: nil,
                keystore: keystore)
            try await container.authorize()
            let key = try await container.enableBiometric()
            #expect(!key.wasAlreadyEnabled)
            let (requests, calls) = (wire.recordings.count, keystore.calls)
            let again = try await container.enableBiometric()
            #expect(again.wasAlreadyEnabled && again == key)
            #expect(try await container.enabledBiometric().wasAlreadyEnabled)
            #expect(presence.requests.count == 1)
            #expect(wire.recordings.count == requests)
            #expect(keystore.calls == calls)
            #expect(try await container.listBiometricKeys().map(\.id) == [key.id])
            #expect(await bench.identity.identities.keys.sorted() == [key.id.rawValue])
        }
    }

    @Test
    func
        `enabling again is a conflict with another policy, without a session and for another user`()
        async throws
    {
        try await Bench.with { bench in
            let presence = ScriptedPresence(pins: Bench.pin)
            let container = try await bench.start(presence: presence)
            try await container.authorize()
            let key = try await container.enableBiometric()
            let stricter = try #require(AccessPolicy(.pin, attemptLimit: 3))
            let refused = await #expect(throws: login(.conflict)) {
                try await container.enableBiometric(policy: stricter)
            }
            #expect(refused?.reason == "biometric login is already enabled with the policy ‘pin’")
            try await container.clear()
            await #expect(throws: login(.conflict)) { try await container.enableBiometric() }
            // The last user of another program's login.
            let records = try await bench.records()
            let other = Record(id: "login.user", kind: "login.user", attributes: ["sub": "user-b"])
            try await container.authorize()
            try await records.apply(
                [.put(other, payload: nil, ifGeneration: nil)], for: PromptContext(reason: "log in")
            )
            let foreign = await #expect(throws: login(.conflict)) {
                try await container.enableBiometric()
            }
            #expect(foreign?.reason == "biometric login is already enabled for another user")
            #expect(presence.requests.count == 1)
            #expect(try await container.listBiometricKeys().map(\.id) == [key.id])
        }
    }

    /// Answers like the bus of a TPM that an attacker changes once.
    private struct DenyingKeystore: KeystoreWrapper {
        let keystore: any Keystore

        func owns(_ secret: SealedSecret) async -> Bool? { false }
    }

    @Test func `a wrong answer that other hardware protects the records does not replace the key`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            let key = try await container.enableBiometric()
            let store = try await RecordStore(directory: bench.directory.path)
            let deceived = try await bench.start(
                presence: ScriptedPresence([]),
                keystore: DenyingKeystore(
                    keystore: TPMKeystore(tcti: bench.tpm.tcti, anchors: store)))
            #expect(try await deceived.enableBiometric().id == key.id)
            #expect(await bench.identity.identities.keys.sorted() == [key.id.rawValue])
            #expect(try await container.authenticateBiometric().keyID == key.id)
        }
    }

    @Test func `a policy without user verification is refused before anything is made`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            await #expect(throws: keystore(.invalidInput)) {
                try await container.enableBiometric(policy: .none)
            }
            #expect(try await container.listBiometricKeys().isEmpty)
            #expect(await bench.identity.identities.isEmpty)
            // The document's spellings.
            try await container.enabledBiometric()
            let userID = try await container.getLastUserID()
            let enabled = try await container.isBiometricEnabled()
            #expect(userID != nil && enabled)
        }
    }

    @Test func `replacing leaves one key on the device and on the server`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            let old = try await container.enableBiometric()
            let new = try await container.enableBiometric(replacing: true)
            #expect(new.id != old.id)
            #expect(try await container.listBiometricKeys().map(\.id) == [new.id])
            #expect(await bench.identity.identities.keys.sorted() == [new.id.rawValue])
            #expect(try await container.authenticateBiometric().keyID == new.id)
        }
    }

    /// A logged-in container whose next set-up the server refuses.
    private func refusing(
        _ code: String, _ description: String, at bench: Bench
    ) async throws -> Container {
        let wire = RecordingTransport(forwardingTo: bench.identity)
        let container = try await bench.start(transport: wire)
        try await container.authorize()
        wire.append(
            .forward,
            .json(
                #"{"error":"\#(code)","error_description":"\#(description)"}"#,
                status: .badRequest))
        return container
    }

    @Test func `a refusal leaves no key, and keeps the session`() async throws {
        try await Bench.with { bench in
            let container = try await refusing("invalid_grant", "InvalidCredentials", at: bench)
            await #expect(throws: login(.oauthError)) { try await container.enableBiometric() }
            #expect(try await container.sessionState == .authenticated)
            #expect(try await !container.isBiometricEnabled())
            await #expect(throws: login(.notEnabled)) { try await container.disableBiometric() }
            try await container.enableBiometric()
            #expect(await bench.identity.identities.count == 1)
        }
    }

    @Test func `a session that the server has ended ends on the device too`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            await bench.identity.endAllSessions()
            let error = await #expect(throws: LoginError.self) {
                try await container.enableBiometric()
            }
            #expect(error?.code == .oauthError)
            #expect(error?.recovery.contains("session on this device has ended") == true)
            #expect(error?.recoveryAction.actions == [.login])
            #expect(try await container.sessionState == .noSession)
        }
    }

    @Test(arguments: [
        ("invalid_grant", "unknown device", true), ("invalid_grant", "InvalidCredentials", false),
        ("server_error", "unknown device", false),
    ])
    func `a refused set-up ends the session only for invalid_grant, and the error says so`(
        code: String, description: String, isEnded: Bool
    ) async throws {
        try await Bench.with { bench in
            let container = try await refusing(code, description, at: bench)
            let error = await #expect(throws: LoginError.self) {
                try await container.enableBiometric()
            }
            #expect(error?.reason.contains("\(code)’ (\(description))") == true)
            #expect(error?.recovery.contains("session on this device has ended") == isEnded)
            #expect(try await (container.sessionState == .noSession) == isEnded)
        }
    }

    @Test func `a wrong clock at a set-up does not promise to keep a key`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            await bench.identity.set { $0.clockOffset = 1000 }
            let error = await #expect(throws: LoginError.self) {
                try await container.enableBiometric()
            }
            #expect(error?.code == .clockSkew && error?.recovery.contains("kept") == false)
        }
    }

    @Test func `a lost response leaves no key on the device or the server`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            wire.append(.forward, .loseResponse(noNetwork))
            await #expect(throws: login(.network)) { try await container.enableBiometric() }
            #expect(try await !container.isBiometricEnabled())
            #expect(await bench.identity.identities.isEmpty)
            #expect(wire.summary.last == "POST /api/identity/biometric/remove")
        }
    }

    @Test func `a removal that failed is repeated at the next enabling`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            wire.append(.forward, .loseResponse(noNetwork), .fail(noNetwork))
            await #expect(throws: login(.network)) { try await container.enableBiometric() }
            #expect(await bench.identity.identities.count == 1)
            let key = try await container.enableBiometric()
            #expect(await bench.identity.identities.keys.sorted() == [key.id.rawValue])
        }
    }

    @Test(arguments: [
        ("/oauth2/challenge", PausingTransport.Side.before, 0), ("/oauth2/token", .before, 1),
        ("/oauth2/token", .after, 1),
    ])
    func `a crash while enabling leaves it disabled, and the next enabling cleans up`(
        path: String, side: PausingTransport.Side, skip: Int
    ) async throws {
        try await Bench.with { bench in
            let crashing = PausingTransport(bench.identity, at: path, skip: skip, side)
            let victim = try await bench.start(transport: crashing)
            try await victim.authorize()
            let attempt = Task { try await victim.enableBiometric() }
            await crashing.reached()
            let container = try await bench.start()
            #expect(try await !container.isBiometricEnabled())
            #expect(try await container.listBiometricKeys().isEmpty)
            await #expect(throws: login(.notEnabled)) {
                try await container.authenticateBiometric()
            }
            let key = try await container.enableBiometric()
            #expect(await bench.identity.identities.keys.sorted() == [key.id.rawValue])
            #expect(try await container.authenticateBiometric().keyID == key.id)
            // The victim was only slow after all: it loses, and the winner's key stays.
            await crashing.resume()
            await #expect(throws: LoginError.self) { try await attempt.value }
            #expect(try await container.listBiometricKeys().map(\.id) == [key.id])
            #expect(await bench.identity.identities.keys.sorted() == [key.id.rawValue])
        }
    }

    @Test func `disabling cleans up after a crash that followed the server's response`()
        async throws
    {
        try await Bench.with { bench in
            let crashing = PausingTransport(bench.identity, at: "/oauth2/token", skip: 1, .after)
            let victim = try await bench.start(transport: crashing)
            try await victim.authorize()
            let attempt = Task { try await victim.enableBiometric() }
            await crashing.reached()
            #expect(await bench.identity.identities.count == 1)
            let container = try await bench.start()
            await #expect(throws: login(.notEnabled)) { try await container.disableBiometric() }
            await crashing.resume()
            await #expect(throws: login(.conflict)) { try await attempt.value }
            #expect(await bench.identity.identities.isEmpty)
        }
    }

    @Test
    func `of many concurrent calls that enable, one succeeds, and the server has only its key`()
        async throws
    {
        try await Bench.with { bench in
            // A bare TPM has room for one program at a time; this test is about the store and the
            // server.
            let tpm = TPMKeystore(tcti: bench.tpm.tcti, anchors: MemoryTrustAnchors())
            try await bench.start(keystore: tpm).authorize()
            var containers: [Container] = []
            for _ in 0..<6 { containers.append(try await bench.start(keystore: tpm)) }
            let outcomes = await withTaskGroup(of: Result<BiometricKey, any Error>.self) { group in
                for container in containers {
                    group.addTask {
                        do { return .success(try await container.enableBiometric()) } catch {
                            return .failure(error)
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let successes = outcomes.compactMap { try? $0.get() }
            // A call that begins after the key is stored finds it.
            let keys = successes.filter { !$0.wasAlreadyEnabled }
            #expect(keys.count == 1 && Set(successes.map(\.id)).count == 1)
            for case .failure(let error) in outcomes {
                #expect(error as? LoginError == login(.conflict), "\(error)")
            }
            #expect(await bench.identity.identities.keys.sorted() == keys.map(\.id.rawValue))
            let another = try await bench.start(keystore: tpm)
            #expect(try await another.authenticateBiometric().keyID == keys.first?.id)
        }
    }

    @Test func `a cancelled call completes what the server has registered`() async throws {
        try await Bench.with { bench in
            let pausing = PausingTransport(bench.identity, at: "/oauth2/token", skip: 1, .after)
            let container = try await bench.start(transport: pausing)
            try await container.authorize()
            let attempt = Task { try await container.enableBiometric() }
            await pausing.reached()
            attempt.cancel()
            await pausing.resume()
            let key = try await attempt.value
            #expect(try await container.isBiometricEnabled())
            #expect(await bench.identity.identities.keys.sorted() == [key.id.rawValue])
        }
    }
}
