import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

/// One call at a time, each with exactly one completion.
@Suite(.softwareTPM)
struct InteractionTests {
    /// A program with an enrolled user who acts as `steps` say.
    private func locked(
        _ scene: Scene, _ steps: [ScriptedPresence.Step],
        _ change: (inout LockerConfiguration) -> Void = { _ in }
    ) async throws -> Program {
        let program = try await scene.start(ScriptedPresence([.pin("2468")] + steps), change)
        _ = try await program.locker.startAuthSession()
        _ = try await program.locker.endAuthSession(mode: .lock)
        return program
    }

    private func asked(_ program: Program, _ count: Int) async {
        while program.presence.requests.count < count { await Task.yield() }
    }

    @Test func `a second call is refused during a prompt, and the first continues`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, [.hesitate])
            #expect(!program.locker.isUserInteractionInProgress)
            let first = Task { try await program.locker.startAuthSession() }
            await asked(program, 2)
            #expect(program.locker.isUserInteractionInProgress)
            await #expect(throws: refusal(.userInteractionInProgress)) { try await program.locker.startAuthSession() }
            await #expect(throws: refusal(.userInteractionInProgress)) { try await program.locker.changeEasyAccess() }
            // Background access does not prompt, so it can run at the same time.
            #expect(try await program.locker.backgroundAccess().phase == .backgroundAccess)
            #expect(program.locker.isUserInteractionInProgress)
            let status = try await program.locker.dismissUI()
            #expect(status.phase == .backgroundAccess)
            await #expect(throws: refusal(.userCancelled)) { try await first.value }
            #expect(!program.locker.isUserInteractionInProgress)
            await #expect(throws: refusal(.noActiveUI)) { try await program.locker.dismissUI() }
        }
    }

    @Test func `one of many concurrent starts wins`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, Array(repeating: .pin("2468"), count: 8))
            let outcomes = await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        do throws(ErsteGroupAuthError) {
                            return try await program.locker.startAuthSession().isActive
                        } catch {
                            #expect(error == refusal(.userInteractionInProgress))
                            return false
                        }
                    }
                }
                return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(outcomes >= 1)
            #expect(program.presence.requests.count == 1 + outcomes)
            #expect(program.phase == .activeViaEasyAccess)
        }
    }

    /// The app has just used the token with the same keystore.
    @Test(.softwareToken)
    func `a presence that takes no earlier proof is asked although one would serve`() async throws {
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 300))
        try await Scene.with(on: .token) { scene in
            let program = try await scene.start { $0.easyAccessPolicy = policy }
            _ = try await program.locker.startAuthSession()
            _ = try await program.locker.endAuthSession(mode: .lock)
            let prompt = PromptContext(reason: "use the app's key")
            let key = try await program.keystore.createKey(
                KeyRequest(policy: policy, prompt: prompt), authorizedBy: program.presence)
            _ = try await program.keystore.sign(
                MessageDigest(sha256: [1]), with: key, for: prompt, authorizedBy: program.presence)
            let asked = ScriptedPresence([.decline])
            await #expect(throws: refusal(.userCancelled)) {
                try await program.locker.startAuthSession(
                    options: StartAuthSessionOptions(
                        usesCachedSecret: false, presence: PresenceSession(asked, acceptsEarlierProof: false)))
            }
            #expect(asked.requests.count == 1)
        }
    }

    @Test func `a login page that is dismissed leaves the status as it was`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            await scene.channel.next(.hesitate)
            let starting = Task { try await program.locker.startAuthSession() }
            while await scene.channel.requests.isEmpty { await Task.yield() }
            #expect(try await program.locker.dismissUI().phase == .unregistered)
            await #expect(throws: refusal(.userCancelled)) { try await starting.value }
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
        }
    }

    @Test func `a lock ends a prompt, and the session stays locked`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, [.hesitate])
            let starting = Task { try await program.locker.startAuthSession() }
            await asked(program, 2)
            #expect(try await program.locker.endAuthSession(mode: .lock).phase == .enrolled)
            await #expect(throws: refusal(.userCancelled)) { try await starting.value }
            #expect(program.phase == .enrolled)
        }
    }

    /// The server has the assertion when the prompt is dismissed. Its answer is reported once.
    @Test func `a dismissal during a server call reports the server's answer`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, [.pin("2468"), .pin("2468")])
            scene.line.fail(at: "/token", .stopAfter)
            let starting = Task { try await program.locker.startAuthSession() }
            await scene.line.reached()
            async let dismissed = program.locker.dismissUI()
            scene.line.release()
            let status = try await dismissed
            #expect(status == program.locker.authSessionStatus)
            let outcome = await starting.result
            #expect(throws: refusal(.network)) { try outcome.get() }
            #expect(status.phase == .enrolled)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    /// The server has issued the token when the prompt is dismissed: the start succeeds.
    @Test func `a success that comes after a dismissal is reported once`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, [.pin("2468")])
            let changes = program.locker.statusChanges
            scene.line.fail(at: "/token", .late)
            let starting = Task { try await program.locker.startAuthSession() }
            await scene.line.reached()
            async let dismissed = program.locker.dismissUI()
            scene.line.release()
            #expect(try await dismissed.phase == .activeViaEasyAccess)
            #expect(try await starting.value.phase == .activeViaEasyAccess)
            _ = try await program.locker.endAuthSession(mode: .lock)
            var events = changes.makeAsyncIterator()
            #expect(await events.next()?.cause == .started)
            #expect(await events.next()?.cause == .locked)
        }
    }

    @Test func `the task of a call can be cancelled`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, [.hesitate, .pin("2468")])
            let starting = Task { try await program.locker.startAuthSession() }
            await asked(program, 2)
            starting.cancel()
            await #expect(throws: refusal(.userCancelled)) { try await starting.value }
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    @Test func `concurrent calls of background access share one request, without a prompt`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, [])
            let before = scene.line.sent.filter { $0.path.hasSuffix("/token") }.count
            let tokens = try await withThrowingTaskGroup(of: AccessToken?.self) { group in
                for _ in 0..<8 { group.addTask { try await program.locker.backgroundAccess().accessToken } }
                return try await group.reduce(into: Set<AccessToken?>()) { $0.insert($1) }
            }
            let after = scene.line.sent.filter { $0.path.hasSuffix("/token") }.count
            #expect(tokens.count == after - before)
            #expect(program.presence.requests.count == 1)
            scene.line.isDown = true
            let error = await #expect(throws: BackgroundAccessError.self) {
                try await program.locker.backgroundAccess()
            }
            #expect(error?.code == .network)
            #expect(program.phase == .backgroundAccess)
        }
    }

    // MARK: Callbacks

    @Test func `callbacks run once, on the main actor`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            let (calls, call) = AsyncStream.makeStream(of: (SessionPhase, ErsteGroupAuthError?).self)
            program.locker.startAuthSession(options: nil, metadata: ["n": 1, "list": [true, nil, "x"]]) {
                session, error in
                MainActor.assertIsolated()
                call.yield((session.phase, error))
            }
            var iterator = calls.makeAsyncIterator()
            let started = await iterator.next()
            #expect(started?.0 == .activeViaStrongAuth && started?.1 == nil)
            program.locker.endAuthSession(mode: .lock) { session, error in call.yield((session.phase, error)) }
            #expect(await iterator.next()?.0 == .enrolled)
            program.locker.disableEasyAccess { session, error in call.yield((session.phase, error)) }
            let refused = await iterator.next()
            #expect(refused?.0 == .enrolled && refused?.1 == refusal(.notActive))
            program.locker.startAuthSession(options: nil, metadata: ["date": Date()]) { session, error in
                call.yield((session.phase, error))
            }
            #expect(await iterator.next()?.1 == refusal(.invalidInput))
            call.finish()
            #expect(await iterator.next() == nil)
            let sent = scene.line.sent.map(\.body).joined()
            #expect(!sent.isEmpty)
        }
    }

    @Test func `callbacks run where the app says`() async throws {
        try await Scene.with { scene in
            let delivered = Mutex(0)
            let program = try await scene.start(nil) {
                $0.deliver = { work in
                    delivered.withLock { $0 += 1 }
                    work()
                }
            }
            let error = await withCheckedContinuation { continuation in
                program.locker.dismissUI { _, error in continuation.resume(returning: error) }
            }
            #expect(error as? ErsteGroupAuthError == refusal(.noActiveUI))
            #expect(delivered.withLock { $0 } == 1)
        }
    }
}
