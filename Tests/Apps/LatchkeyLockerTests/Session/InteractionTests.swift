import Foundation
import Latchkey
import LatchkeyJOSE
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
                        usesCachedSecret: false,
                        presence: PresenceSession(asked, acceptsEarlierProof: false)))
            }
            #expect(asked.requests.count == 1)
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

    /// The prompt is answered, and the server has the assertion.
    @Test func `a dismissal during a server call is refused, and the call completes`() async throws
    {
        try await Scene.with { scene in
            let program = try await locked(scene, [.pin("2468")])
            let changes = program.locker.statusChanges
            scene.line.fail(at: "/token", .late)
            let starting = Task { try await program.locker.startAuthSession() }
            await scene.line.reached()
            #expect(!program.locker.isUserInteractionInProgress())
            await #expect(throws: refusal(.noActiveUI)) { try await program.locker.dismissUI() }
            // A call that may prompt is still running.
            await #expect(throws: refusal(.userInteractionInProgress)) {
                try await program.locker.changeEasyAccess()
            }
            scene.line.release()
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

    @Test func `concurrent calls of background access share one request, without a prompt`()
        async throws
    {
        try await Scene.with { scene in
            let program = try await locked(scene, [])
            let before = scene.line.sent.filter { $0.path.hasSuffix("/token") }.count
            let tokens = try await withThrowingTaskGroup(of: AccessToken?.self) { group in
                for _ in 0..<8 {
                    group.addTask { try await program.locker.backgroundAccess().accessToken }
                }
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

    @Test func `background access reports wrong input as such`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, [])
            let long = JSONValue.string(String(repeating: "x", count: 4097))
            let error = await #expect(throws: BackgroundAccessError.self) {
                try await program.locker.backgroundAccess(metadata: ["long": long])
            }
            #expect(error?.code == .invalidInput && error?.commonCode == .invalidInput)
            let (errors, answer) = AsyncStream.makeStream(of: BackgroundAccessError?.self)
            program.locker.backgroundAccess(metadata: ["date": Date()]) { answer.yield($1) }
            var iterator = errors.makeAsyncIterator()
            #expect(await iterator.next()??.code == .invalidInput)
            #expect(program.phase == .enrolled)
        }
    }

    /// An app enrols the device again after `deviceKeyUnavailable`.
    @Test func `only errors of the device's key or the store are deviceKeyUnavailable`() {
        let others: Set<CommonErrorCode> = [.invalidInput, .conflict, .wrongState, .refused]
        for code in ErsteGroupAuthErrorCode.allCases where others.contains(code.commonCode) {
            #expect(BackgroundAccessErrorCode(refusal(code)) != .deviceKeyUnavailable, "\(code)")
        }
    }

    @Test func `metadata arrives exactly`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let json =
                #"{"a":9007199254740993,"b":18446744073709551615,"c":[true,1,null,{"d":-0.1}],"e":"ü"}"#
            let metadata = try #require(
                try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
            let outcome = await withCheckedContinuation { continuation in
                program.locker.backgroundAccess(metadata: metadata) { _, error in
                    continuation.resume(returning: error)
                }
            }
            #expect(outcome == nil)
            #expect(scene.assertionsSent.last?.contains(#""metadata":\#(json)"#) == true)
            try await program.locker.backgroundAccess(metadata: [
                "n": 9_007_199_254_740_993, "o": .null, "p": 1,
            ])
            #expect(
                scene.assertionsSent.last?.contains(
                    #""metadata":{"n":9007199254740993,"o":null,"p":1}"#) == true)
        }
    }

    @Test func `requests with different metadata are two requests`() async throws {
        try await Scene.with { scene in
            let program = try await locked(scene, [])
            scene.line.fail(at: "/token", .late)
            async let first = program.locker.backgroundAccess(metadata: ["widget": "a"])
            await scene.line.reached()
            async let second = program.locker.backgroundAccess(metadata: ["widget": "b"])
            #expect(try await second.phase == .backgroundAccess)
            scene.line.release()
            #expect(try await first.phase == .backgroundAccess)
            for widget in ["a", "b"] {
                #expect(
                    scene.assertionsSent.count {
                        $0.contains(#""metadata":{"widget":"\#(widget)"}"#)
                    } == 1)
            }
        }
    }
}
