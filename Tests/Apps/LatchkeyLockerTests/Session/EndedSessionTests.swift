import Foundation
import Latchkey
import LatchkeyTesting
import Testing

@testable import LatchkeyLocker

/// Calls that began in a session that has ended.
@Suite(.softwareTPM, .timeLimit(.minutes(15)))
struct EndedSessionTests {
    @Test func `background access that is granted after a lock opens nothing`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            scene.line.fail(at: "/token", .late)
            let late = Task { try await program.locker.backgroundAccess() }
            await scene.line.reached()
            let texts = program.sealAll()
            #expect(try await program.locker.endAuthSession(mode: .lock).phase == .enrolled)
            scene.line.release()
            let outcome = await late.result
            #expect(throws: BackgroundAccessError.self) { try outcome.get() }
            #expect(program.phase == .enrolled)
            #expect(program.readable(texts) == [.base])
            // The next one is a separate request.
            #expect(try await program.locker.backgroundAccess().phase == .backgroundAccess)
        }
    }

    @Test
    func `background access that is granted after another enrolment opens no key of the old one`()
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            scene.line.fail(at: "/token", .late)
            let late = Task { try await program.locker.backgroundAccess() }
            await scene.line.reached()
            _ = try await program.locker.endAuthSession(mode: .destroy)
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
            let before = program.sealAll()
            scene.line.release()
            let outcome = await late.result
            #expect(throws: BackgroundAccessError.self) { try outcome.get() }
            #expect(program.readable(before) == Set(before.keys))
            let after = program.sealAll()
            let next = try await scene.start()
            _ = try await next.locker.startAuthSession()
            #expect(next.readable(before) == Set(before.keys))
            #expect(next.readable(after) == Set(after.keys))
        }
    }

    @Test func `an answer about an old enrolment does not end the new one`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            scene.line.fail(at: "/token", .held)
            let late = Task { try await program.locker.backgroundAccess() }
            await scene.line.reached()
            _ = try await program.locker.endAuthSession(mode: .destroy)
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            scene.line.release()
            let outcome = await late.result
            let error = #expect(throws: BackgroundAccessError.self) { try outcome.get() }
            #expect(error?.cause?.serverError == "enrolment_revoked")
            #expect(program.phase == .activeViaStrongAuth)
            let next = try await scene.start()
            #expect(next.phase == .enrolled)
            _ = try await next.locker.startAuthSession()
            #expect(next.readable(texts) == Set(texts.keys))
        }
    }

    @Test func `a lock takes effect at once, and a prompt that stays opens nothing`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start { $0.cachedSecretLife = .seconds(600) }
            let status = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let presence = StubbornPresence(pin: scene.pin)
            let starting = Task {
                try await program.locker.startAuthSession(options: .init(presence: presence))
            }
            await presence.isAsked()
            let locking = Task { try await program.locker.endAuthSession(mode: .lock) }
            while program.phase != .enrolled { await Task.yield() }
            #expect(program.readable(texts) == [.base])
            #expect(status.accessToken?.value == nil)
            #expect(program.locker.isUserInteractionInProgress())
            presence.answer()
            #expect(try await locking.value.phase == .enrolled)
            await #expect(throws: refusal(.userCancelled)) { try await starting.value }
            #expect(program.phase == .enrolled)
            #expect(program.readable(texts) == [.base])
            // The secret that was typed after the lock is not cached.
            let prompts = program.presence.requests.count
            _ = try await program.locker.startAuthSession()
            #expect(program.presence.requests.count == prompts + 1)
        }
    }

    @Test func `a running start does not refuse a lock`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(
                ScriptedPresence(Array(repeating: .pin(scene.pin), count: 100_000)))
            _ = try await program.locker.startAuthSession()
            await withTaskGroup { group in
                for _ in 0..<4 {
                    group.addTask {
                        while !Task.isCancelled {
                            _ = try? await program.locker.startAuthSession()
                            await Task.yield()
                        }
                    }
                }
                for _ in 0..<8 {
                    await #expect(throws: Never.self) {
                        try await program.locker.endAuthSession(mode: .lock)
                    }
                    for _ in 0..<1000 { await Task.yield() }
                }
                await #expect(throws: Never.self) {
                    try await program.locker.endAuthSession(mode: .destroy)
                }
                group.cancelAll()
            }
        }
    }

    @Test func `neither a lock nor a dismissal keeps a destruction from the server`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            scene.line.fail(at: "/revoke", .held)
            let destroying = Task { try await program.locker.endAuthSession(mode: .destroy) }
            await scene.line.reached()
            await #expect(throws: Never.self) {
                try await program.locker.endAuthSession(mode: .lock)
            }
            await #expect(throws: refusal(.noActiveUI)) { try await program.locker.dismissUI() }
            destroying.cancel()
            scene.line.release()
            #expect(try await destroying.value.phase == .unregistered)
            #expect(scene.line.existingEnrolments.isEmpty)
            #expect(try await Disk(path: scene.databasePath).rows().isEmpty)
        }
    }

    // MARK: Other programs

    @Test func `a start detects that another program has destroyed the enrolment`() async throws {
        try await Scene.with { scene in
            let (first, second) = (try await scene.start(), try await scene.start())
            _ = try await first.locker.startAuthSession()
            let texts = first.sealAll()
            _ = try await second.locker.startAuthSession()
            _ = try await second.locker.endAuthSession(mode: .destroy)
            let sent = scene.line.sent.count
            await #expect(throws: refusal(.enrolmentRevoked)) {
                try await first.locker.startAuthSession()
            }
            #expect(scene.line.sent.count == sent)
            #expect(first.phase == .unregistered)
            #expect(first.readable(texts).isEmpty)
            #expect(try await first.locker.startAuthSession().phase == .activeViaStrongAuth)
        }
    }

    @Test func `a program applies another program's changes of the enrolment`() async throws {
        try await Scene.with { scene in
            let first = try await scene.start()
            _ = try await first.locker.startAuthSession()
            _ = try await first.locker.endAuthSession(mode: .lock)
            let second = try await scene.start()
            _ = try await second.locker.startAuthSession()
            // Changed, disabled, and enabled again.
            _ = try await second.locker.changeEasyAccess()
            #expect(try await first.locker.startAuthSession().phase == .activeViaEasyAccess)
            _ = try await second.locker.disableEasyAccess()
            #expect(try await first.locker.startAuthSession().phase == .activeViaStrongAuth)
            #expect(!first.locker.authSessionStatus.isEasyAccessEnabled)
            _ = try await first.locker.enableEasyAccess()
            _ = try await second.locker.startAuthSession()
            #expect(second.locker.authSessionStatus.isEasyAccessEnabled)
        }
    }

    @Test func `a program destroys an enrolment that another has changed`() async throws {
        try await Scene.with { scene in
            let first = try await scene.start()
            _ = try await first.locker.startAuthSession()
            let second = try await scene.start()
            _ = try await second.locker.startAuthSession()
            _ = try await second.locker.changeEasyAccess()
            #expect(try await first.locker.endAuthSession(mode: .destroy).phase == .unregistered)
            #expect(try await Disk(path: scene.databasePath).rows().isEmpty)
        }
    }
}
