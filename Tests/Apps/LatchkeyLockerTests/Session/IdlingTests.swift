import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Locking sessions after a time without use.
@Suite(.softwareTPM, .timeLimit(.minutes(15)))
struct IdlingTests {
    @Test func `use keeps a session open, and without use it is locked`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start { $0.sessionIdleTimeout = .seconds(40) }
            let changes = program.locker.statusChanges
            let status = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            for _ in 0..<3 {
                scene.clock.advance(by: 39)
                #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            }
            scene.clock.advance(by: 39)
            program.locker.noteUse()
            scene.clock.advance(by: 39)
            // None of these counts as use.
            #expect(program.phase == .activeViaStrongAuth)
            _ = try await program.locker.backgroundAccess()
            let endings = program.keystore.reuseEndings
            scene.clock.advance(by: 1)
            #expect(program.readable(texts) == [.base])
            #expect(program.phase == .enrolled)
            #expect(status.accessToken?.value == nil)
            #expect(program.keystore.reuseEndings == endings + 1)
            var events = changes.makeAsyncIterator()
            #expect(await events.next()?.cause == .started)
            let last = await events.next()
            #expect(last?.cause == .idle && last?.new.phase == .enrolled)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    @Test func `it is locked without a call`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start { $0.sessionIdleTimeout = .milliseconds(300) }
            let changes = program.locker.statusChanges
            _ = try await program.locker.startAuthSession()
            var events = changes.makeAsyncIterator()
            #expect(await events.next()?.cause == .started)
            #expect(await events.next()?.cause == .idle)
        }
    }

    @Test func `a prompt does not keep a session open`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence([.pin("2468"), .hesitate])) {
                $0.sessionIdleTimeout = .seconds(600)
            }
            let status = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let asked = Task { try await program.locker.changeEasyAccess() }
            while program.presence.requests.count < 2 { await Task.yield() }
            scene.clock.advance(by: 601)
            #expect(program.phase == .enrolled)
            #expect(program.readable(texts) == [.base])
            #expect(status.accessToken?.value == nil)
            #expect(program.locker.isUserInteractionInProgress())
            await #expect(throws: Never.self) { try await program.locker.dismissUI() }
            await #expect(throws: refusal(.userCancelled)) { try await asked.value }
            #expect(program.phase == .enrolled)
        }
    }

    @Test func `a start with an open prompt continues when its session is locked`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start { $0.sessionIdleTimeout = .seconds(100) }
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            scene.line.fail(at: "/token", .late)
            let starting = Task { try await program.locker.startAuthSession() }
            await scene.line.reached()
            scene.clock.advance(by: 101)
            #expect(program.readable(texts) == [.base])
            scene.line.release()
            #expect(try await starting.value.phase == .activeViaEasyAccess)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
        }
    }

    @Test func `a failed start does not count as use`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence([.pin("2468"), .decline])) {
                $0.sessionIdleTimeout = .seconds(600)
            }
            _ = try await program.locker.startAuthSession()
            scene.clock.advance(by: 500)
            await #expect(throws: refusal(.userCancelled)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.phase == .activeViaStrongAuth)
            scene.clock.advance(by: 101)
            #expect(program.phase == .enrolled)
        }
    }
}
