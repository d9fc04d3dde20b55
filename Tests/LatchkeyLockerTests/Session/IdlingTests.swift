import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// A session that nobody uses is locked.
@Suite(.softwareTPM, .timeLimit(.minutes(5)))
struct IdlingTests {
    @Test func `use keeps a session open, and its lack locks it`() async throws {
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
            // Neither of these is use.
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

    @Test func `it is locked although nobody calls`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start { $0.sessionIdleTimeout = .milliseconds(300) }
            let changes = program.locker.statusChanges
            _ = try await program.locker.startAuthSession()
            var events = changes.makeAsyncIterator()
            #expect(await events.next()?.cause == .started)
            #expect(await events.next()?.cause == .idle)
        }
    }

    @Test func `a prompt is no idleness`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence([.pin("2468"), .hesitate])) {
                $0.sessionIdleTimeout = .seconds(600)
            }
            _ = try await program.locker.startAuthSession()
            let asked = Task { try await program.locker.changeEasyAccess() }
            while program.presence.requests.count < 2 { await Task.yield() }
            scene.clock.advance(by: 6000)
            #expect(program.phase == .activeViaStrongAuth)
            await #expect(throws: Never.self) { try await program.locker.dismissUI() }
            await #expect(throws: refusal(.userCancelled)) { try await asked.value }
            #expect(program.phase == .activeViaStrongAuth)
        }
    }
}
