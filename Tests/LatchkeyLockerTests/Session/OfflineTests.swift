import Foundation
import GRDB
import Latchkey
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTesting
import RawDatabase
import Testing

/// Recognising the person without a network: rarely, not for long, and counted.
@Suite(.softwareTPM, .softwareToken)
struct OfflineTests {
    private func rules(_ configuration: inout LockerConfiguration) {
        configuration.offlineVerification = OfflineVerification(maximumAttempts: 2, maximumAge: .seconds(3600))
    }

    /// A scene whose user is enrolled, and has no network now.
    private func offline(
        on device: SimulatedDevice = .tpm, _ body: (Scene, [ProtectionLevel: String]) async throws -> Void
    ) async throws {
        try await Scene.with(on: device) { scene in
            let program = try await scene.start(nil, rules)
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            _ = try await program.locker.endAuthSession(mode: .lock)
            scene.line.isDown = true
            try await body(scene, texts)
        }
    }

    @Test func `it is off unless somebody turns it on`() async throws {
        try await offline { scene, _ in
            let program = try await scene.start(ScriptedPresence([]))
            await #expect(throws: refusal(.network)) { try await program.locker.startAuthSession() }
            #expect(program.phase == .enrolled)
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == nil)
        }
    }

    @Test(arguments: SimulatedDevice.allCases)
    func `wrong PINs are counted across restarts, and by the hardware`(device: SimulatedDevice) async throws {
        try await offline(on: device) { scene, texts in
            let before = try await scene.start(nil, rules).keystore.pinStatus().attemptsLeft
            for left in [1, 0] {
                let program = try await scene.start(ScriptedPresence(pins: "999999"), rules)
                await #expect(throws: refusal(.wrongSecret)) { try await program.locker.startAuthSession() }
                #expect(program.locker.authSessionStatus.offlineAttemptsLeft == left)
                #expect(program.readable(texts) == [.base])
                if let before {
                    #expect(try await scene.start(nil, rules).keystore.pinStatus().attemptsLeft == before - 2 + left)
                }
            }
            #expect(before != nil || device != .tpm)
            // Now not even the right one is asked for, in whatever program.
            let program = try await scene.start(ScriptedPresence(pins: scene.pin), rules)
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 0)
            await #expect(throws: refusal(.verificationUnavailable)) { try await program.locker.startAuthSession() }
            #expect(program.presence.requests.isEmpty)
            // A start with a network makes all good.
            scene.line.isDown = false
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 2)
        }
    }

    @Test func `the count is on disk before the hardware looks at the PIN`() async throws {
        try await offline { scene, _ in
            let program = try await scene.start(ScriptedPresence([.hesitate]), rules)
            let asking = Task { try await program.locker.startAuthSession() }
            while program.presence.requests.isEmpty { await Task.yield() }
            // The program is killed here; the next one finds the attempt counted.
            let next = try await scene.start(ScriptedPresence([]), rules)
            #expect(next.locker.authSessionStatus.offlineAttemptsLeft == 1)
            asking.cancel()
            _ = await asking.result
            // Who declines has made none.
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 2)
            #expect(try await scene.start(nil, rules).locker.authSessionStatus.offlineAttemptsLeft == 2)
        }
    }

    @Test func `it goes for a while, and not with a clock that was set back`() async throws {
        try await offline { scene, _ in
            let program = try await scene.start(nil, rules)
            scene.clock.advance(by: 3000)
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            _ = try await program.locker.endAuthSession(mode: .lock)
            // Back to the time of the enrolment: that time was seen to pass.
            scene.clock.advance(by: -2900)
            await #expect(throws: refusal(.verificationUnavailable)) { try await program.locker.startAuthSession() }
            scene.clock.advance(by: 2900 + 700)
            let prompts = program.presence.requests.count
            await #expect(throws: refusal(.verificationUnavailable)) { try await program.locker.startAuthSession() }
            #expect(program.presence.requests.count == prompts)
            let restarted = try await scene.start(ScriptedPresence([]), rules)
            await #expect(throws: refusal(.verificationUnavailable)) { try await restarted.locker.startAuthSession() }
        }
    }

    @Test func `programs that began before count where the others left off`() async throws {
        try await offline { scene, _ in
            let first = try await scene.start(ScriptedPresence(pins: "999999"), rules)
            let second = try await scene.start(ScriptedPresence(pins: "999999"), rules)
            let third = try await scene.start(ScriptedPresence(pins: scene.pin), rules)
            await #expect(throws: refusal(.wrongSecret)) { try await first.locker.startAuthSession() }
            await #expect(throws: refusal(.wrongSecret)) { try await second.locker.startAuthSession() }
            await #expect(throws: refusal(.verificationUnavailable)) { try await third.locker.startAuthSession() }
            #expect(third.presence.requests.isEmpty)
            #expect(try await scene.start(nil, rules).locker.authSessionStatus.offlineAttemptsLeft == 0)
        }
    }

    @Test func `a program that began before does not forget what time it was`() async throws {
        try await offline { scene, _ in
            let old = try await scene.start(ScriptedPresence([]), rules)
            scene.clock.advance(by: 3000)
            let new = try await scene.start(nil, rules)
            #expect(try await new.locker.startAuthSession().phase == .verifiedOffline)
            scene.clock.advance(by: -2900)
            await #expect(throws: refusal(.verificationUnavailable)) { try await old.locker.startAuthSession() }
        }
    }

    @Test func `a clock that was ahead once counts until the next start with a network`() async throws {
        try await offline { scene, _ in
            let program = try await scene.start(nil, rules)
            scene.clock.advance(by: 31_536_000)
            await #expect(throws: refusal(.verificationUnavailable)) { try await program.locker.startAuthSession() }
            scene.clock.advance(by: -31_536_000)
            await #expect(throws: refusal(.verificationUnavailable)) { try await program.locker.startAuthSession() }
            scene.line.isDown = false
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            _ = try await program.locker.endAuthSession(mode: .lock)
            scene.line.isDown = true
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
        }
    }

    @Test func `who was recognised is recognised anew at each start, and not for ever`() async throws {
        try await offline { scene, texts in
            let program = try await scene.start(ScriptedPresence(pins: scene.pin, "999999", scene.pin), rules)
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            await #expect(throws: refusal(.wrongSecret)) { try await program.locker.startAuthSession() }
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 1)
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            #expect(program.presence.requests.count == 3)
            scene.clock.advance(by: 3601)
            await #expect(throws: refusal(.verificationUnavailable)) { try await program.locker.startAuthSession() }
            #expect(program.phase == .enrolled)
            #expect(program.readable(texts) == [.base])
        }
    }

    @Test func `a server that says no is no missing network`() async throws {
        try await offline { scene, _ in
            scene.line.isDown = false
            let program = try await scene.start(nil, rules)
            scene.line.fail(at: "/token", .answer(status: 400, body: #"{"error":"invalid_grant"}"#))
            await #expect(throws: refusal(.server)) { try await program.locker.startAuthSession() }
            scene.line.fail(at: "/token", .answer(status: 429, body: #"{"error":"rate_limited"}"#))
            await #expect(throws: refusal(.server)) { try await program.locker.startAuthSession() }
            #expect(program.phase == .enrolled)
        }
    }

    @Test func `a network that goes after the prompt costs no second one`() async throws {
        try await offline { scene, texts in
            scene.line.isDown = false
            let program = try await scene.start(ScriptedPresence(pins: scene.pin), rules)
            scene.line.fail(at: "/token", .cut)
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            #expect(program.presence.requests.count == 1)
            #expect(program.readable(texts) == [.base, .offline])
        }
    }

    @Test func `a count that somebody edited is not believed`() async throws {
        try await offline { scene, _ in
            try await DatabaseQueue.raw(at: scene.databasePath).write {
                try $0.execute(
                    sql:
                        "UPDATE record SET attributes = replace(attributes, '\"failures\":\"0\"', '\"failures\":\"-9\"')"
                )
            }
            await #expect(throws: refusal(.storageCorrupted)) { try await scene.start(nil, rules) }
        }
    }
}
