import Foundation
import GRDB
import Latchkey
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

/// Offline verification: a limited number of attempts, for a limited time.
@Suite(.softwareTPM, .softwareToken)
struct OfflineTests {
    private func rules(_ configuration: inout LockerConfiguration) {
        configuration.offlineVerification = OfflineVerification(
            maximumAttempts: 2, maximumAge: .seconds(3600))
    }

    /// A scene with an enrolled user and without a network.
    private func offline(
        on device: SimulatedDevice = .tpm,
        _ body: (Scene, [ProtectionLevel: String]) async throws -> Void
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

    @Test func `it is off by default`() async throws {
        try await offline { scene, _ in
            let program = try await scene.start(ScriptedPresence([]))
            await #expect(throws: refusal(.network)) { try await program.locker.startAuthSession() }
            #expect(program.phase == .enrolled)
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == nil)
        }
    }

    @Test(arguments: SimulatedDevice.allCases)
    func `wrong PINs are counted across restarts, and by the hardware`(device: SimulatedDevice)
        async throws
    {
        try await offline(on: device) { scene, texts in
            let before = try await scene.start(nil, rules).keystore.pinStatus().attemptsLeft
            for left in [1, 0] {
                let program = try await scene.start(ScriptedPresence(pins: "999999"), rules)
                await #expect(throws: refusal(.wrongSecret)) {
                    try await program.locker.startAuthSession()
                }
                #expect(program.locker.authSessionStatus.offlineAttemptsLeft == left)
                #expect(program.readable(texts) == [.base])
                if let before {
                    #expect(
                        try await scene.start(nil, rules).keystore.pinStatus().attemptsLeft
                            == before - 2 + left)
                }
            }
            #expect(before != nil || device != .tpm)
            // Now no program prompts, not even for the correct PIN.
            let program = try await scene.start(ScriptedPresence(pins: scene.pin), rules)
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 0)
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.presence.requests.isEmpty)
            // A start with a network resets the count.
            scene.line.isDown = false
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 2)
        }
    }

    @Test func `the count is on disk before the hardware checks the PIN`() async throws {
        try await offline { scene, _ in
            let program = try await scene.start(ScriptedPresence([.hesitate]), rules)
            let asking = Task { try await program.locker.startAuthSession() }
            while program.presence.requests.isEmpty { await Task.yield() }
            // The program is killed here; the next one finds the attempt counted.
            let next = try await scene.start(ScriptedPresence([]), rules)
            #expect(next.locker.authSessionStatus.offlineAttemptsLeft == 1)
            asking.cancel()
            _ = await asking.result
            // A declined prompt is not counted.
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 2)
            #expect(
                try await scene.start(nil, rules).locker.authSessionStatus.offlineAttemptsLeft == 2)
        }
    }

    @Test func `it expires, and is refused after the clock was set back`() async throws {
        try await offline { scene, _ in
            let program = try await scene.start(nil, rules)
            scene.clock.advance(by: 3000)
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            _ = try await program.locker.endAuthSession(mode: .lock)
            // Back to the time of the enrolment; a later time is stored.
            scene.clock.advance(by: -2900)
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await program.locker.startAuthSession()
            }
            scene.clock.advance(by: 2900 + 700)
            let prompts = program.presence.requests.count
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.presence.requests.count == prompts)
            let restarted = try await scene.start(ScriptedPresence([]), rules)
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await restarted.locker.startAuthSession()
            }
        }
    }

    @Test func `programs that started earlier continue the others' count`() async throws {
        try await offline { scene, _ in
            let first = try await scene.start(ScriptedPresence(pins: "999999"), rules)
            let second = try await scene.start(ScriptedPresence(pins: "999999"), rules)
            let third = try await scene.start(ScriptedPresence(pins: scene.pin), rules)
            await #expect(throws: refusal(.wrongSecret)) {
                try await first.locker.startAuthSession()
            }
            await #expect(throws: refusal(.wrongSecret)) {
                try await second.locker.startAuthSession()
            }
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await third.locker.startAuthSession()
            }
            #expect(third.presence.requests.isEmpty)
            #expect(
                try await scene.start(nil, rules).locker.authSessionStatus.offlineAttemptsLeft == 0)
        }
    }

    @Test func `a program that started earlier keeps the stored time`() async throws {
        try await offline { scene, _ in
            let old = try await scene.start(ScriptedPresence([]), rules)
            scene.clock.advance(by: 3000)
            let new = try await scene.start(nil, rules)
            #expect(try await new.locker.startAuthSession().phase == .verifiedOffline)
            scene.clock.advance(by: -2900)
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await old.locker.startAuthSession()
            }
        }
    }

    @Test func `a clock that was ahead once counts until the next start with a network`()
        async throws
    {
        try await offline { scene, _ in
            let program = try await scene.start(nil, rules)
            scene.clock.advance(by: 31_536_000)
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await program.locker.startAuthSession()
            }
            scene.clock.advance(by: -31_536_000)
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await program.locker.startAuthSession()
            }
            scene.line.isDown = false
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            _ = try await program.locker.endAuthSession(mode: .lock)
            scene.line.isDown = true
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
        }
    }

    @Test func `each offline start verifies the user again, and it expires`() async throws {
        try await offline { scene, texts in
            let program = try await scene.start(
                ScriptedPresence(pins: scene.pin, "999999", scene.pin), rules)
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            await #expect(throws: refusal(.wrongSecret)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 1)
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            #expect(program.presence.requests.count == 3)
            scene.clock.advance(by: 3601)
            await #expect(throws: refusal(.verificationUnavailable)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.phase == .enrolled)
            #expect(program.readable(texts) == [.base])
        }
    }

    @Test func `a start after background access verifies offline, and ends the access`()
        async throws
    {
        try await offline { scene, texts in
            scene.line.isDown = false
            let program = try await scene.start(nil, rules)
            let token = try #require(try await program.locker.backgroundAccess().accessToken)
            scene.line.isDown = true
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            #expect(token.value == nil)
            #expect(program.readable(texts) == [.base, .offline])
        }
    }

    @Test func `a refusal of the server is not a missing network`() async throws {
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

    @Test func `a network that fails after the prompt causes no second prompt`() async throws {
        try await offline { scene, texts in
            scene.line.isDown = false
            let program = try await scene.start(ScriptedPresence(pins: scene.pin), rules)
            scene.line.fail(at: "/token", .cut)
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            #expect(program.presence.requests.count == 1)
            #expect(program.readable(texts) == [.base, .offline])
        }
    }

    @Test func `an edited count is refused`() async throws {
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
