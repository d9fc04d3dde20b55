import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import Testing

@testable import latchkey_presenced

/// The limit on fingers that do not match.
struct FingerAttemptsTests {
    private let start = ContinuousClock.now

    private func failed(_ count: Int, at time: ContinuousClock.Instant) -> FingerAttempts {
        var attempts = FingerAttempts()
        for _ in 0..<count { attempts.fail(at: time) }
        return attempts
    }

    @Test func `five fingers that do not match lock for a minute, the next five for two`() {
        var attempts = failed(4, at: start)
        #expect(attempts.lock(at: start) == nil)
        attempts.fail(at: start)
        #expect(attempts.lock(at: start) == .seconds(60))
        let later = start + .seconds(61)
        #expect(attempts.lock(at: later) == nil)
        for _ in 0..<5 { attempts.fail(at: later) }
        #expect(attempts.lock(at: later) == .seconds(120))
        #expect(failed(500, at: later).lock(at: later) == .seconds(3600))
    }

    @Test func `the stated end of a lockout is never early`() {
        let now = Date(timeIntervalSince1970: 1000.25)
        let end = { PresenceService.end(of: $0, from: now).timeIntervalSince1970 }
        #expect(end(.milliseconds(59_600)) == 1060)
        #expect(end(.milliseconds(59_750)) == 1060)
        #expect(end(.seconds(60)) == 1061)
        let fraction = Date(timeIntervalSince1970: 1060.5)
        #expect(PresenceWire.arguments(.lockedOut(until: fraction)).last == .uint64(1061))
    }

    @Test func `a match resets the count`() {
        var attempts = failed(4, at: start)
        attempts.match(confirming: Data([1]))
        attempts.fail(at: start)
        #expect(attempts.lock(at: start) == nil)
        #expect(attempts.confirmedPIN == Data([1]))
    }

    @Test func `an interrupted verification counts, and one without a result does not`() {
        var attempts = failed(4, at: start)
        attempts.begin(at: start)
        attempts.end()
        attempts.begin(at: start)
        #expect(attempts.lock(at: start) == nil, "a running verification is not counted yet")
        attempts.resume(at: start)
        #expect(attempts.lock(at: start) == .seconds(60))
        attempts.resume(at: start)
        #expect(attempts == failed(5, at: start), "it counts once")
    }

    @Test func `a stored lockout goes on, and after a restart of the machine it is not shorter`()
        throws
    {
        let boot = start
        let stored = try JSONEncoder().encode(failed(5, at: boot + .seconds(1000)))
        var attempts = try JSONDecoder().decode(FingerAttempts.self, from: stored)
        attempts.resume(at: boot + .seconds(1020))
        #expect(attempts.lock(at: boot + .seconds(1020)) == .seconds(40))
        var rebooted = try JSONDecoder().decode(FingerAttempts.self, from: stored)
        rebooted.resume(at: boot + .seconds(5))
        #expect(rebooted.lock(at: boot + .seconds(5)) == .seconds(60))
        #expect(rebooted.lock(at: boot + .seconds(66)) == nil)
    }
}
