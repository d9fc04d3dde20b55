import Glibc
import LatchkeyPlatform
import LatchkeySimulators
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(15)))
struct PollTests {
    /// Two connected sockets, which are closed at the end.
    private func withPair(_ body: (_ own: Int32, _ other: Int32) throws -> Void) throws {
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        try #require(socketpair(AF_UNIX, type, 0, &ends) == 0)
        defer { ends.forEach { close($0) } }
        try body(ends[0], ends[1])
    }

    @Test func `only descriptors with an event are reported`() throws {
        try withPair { own, other in
            #expect(write(other, "x", 1) == 1)
            let ready = try Poll.wait(
                for: [(-1, POLLIN), (own, POLLIN), (other, POLLIN)], until: nil)
            #expect(ready.events == [0, POLLIN, 0])
            #expect(!ready.isLate && !ready.isWoken)
            #expect(try Poll.wait(for: own, POLLIN, until: nil))
        }
    }

    @Test func `a hang-up is reported without a requested event`() throws {
        try withPair { own, other in
            shutdown(other, Int32(SHUT_RDWR))
            let ready = try Poll.wait(for: [(own, 0)], until: nil)
            #expect(ready.events[0] & POLLHUP != 0)
        }
    }

    @Test func `the wait ends at the deadline and not before`() throws {
        try withPair { (own, _) throws in
            let deadline = ContinuousClock.now + .milliseconds(3)
            #expect(try !Poll.wait(for: own, POLLIN, until: deadline))
            #expect(ContinuousClock.now >= deadline)
            #expect(try Poll.wait(for: [], until: deadline).isLate)
        }
    }

    @Test func `a past deadline reports what is ready`() throws {
        try withPair { (own, other) throws in
            let past = ContinuousClock.now - .seconds(1_000_000)
            #expect(try !Poll.wait(for: own, POLLIN, until: past))
            #expect(write(other, "x", 1) == 1)
            #expect(try Poll.wait(for: own, POLLIN, until: past))
        }
    }

    @Test func `a wake-up ends the wait, also one with a distant deadline`() throws {
        let wakeUp = WakeUp()
        #expect(BlockingThread.start { wakeUp.wake(7) })
        let distant = ContinuousClock.now + .seconds(1 << 40)
        let ready = try Poll.wait(for: [], until: distant, wakeUp: wakeUp)
        #expect(ready.isWoken && !ready.isLate)
        #expect(try Poll.wait(for: [], until: nil, wakeUp: wakeUp).isWoken, "the byte stays")
        #expect(wakeUp.take() == 7)
        #expect(wakeUp.take() == nil)
        #expect(try !Poll.wait(for: [], until: .now, wakeUp: wakeUp).isWoken)
    }

    @Test func `signals do not end the wait`() async throws {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        sigaction(SIGUSR2, &action, nil)
        let waiter = Mutex<pthread_t?>(nil)
        let (wakeUp, started, ended) = (WakeUp(), WakeUp(), WakeUp())
        let result = Mutex<Result<Poll.Readiness, SystemError>?>(nil)
        #expect(
            BlockingThread.start {
                waiter.withLock { $0 = pthread_self() }
                started.wake()
                let readiness = Result { () throws(SystemError) in
                    try Poll.wait(for: [], until: nil, wakeUp: wakeUp)
                }
                result.withLock { $0 = readiness }
                ended.wake()
            })
        _ = try Poll.wait(for: [], until: nil, wakeUp: started)
        let thread = try #require(waiter.withLock { $0 })
        for _ in 0..<100 { pthread_kill(thread, SIGUSR2) }
        wakeUp.wake()
        _ = try Poll.wait(for: [], until: nil, wakeUp: ended)
        #expect(try result.withLock { $0 }?.get().isWoken == true)
    }

    @Test func `wake-ups never block, and are cleared together`() throws {
        let wakeUp = WakeUp()
        for byte in 0..<100_000 { wakeUp.wake(UInt8(truncatingIfNeeded: byte)) }
        #expect([wakeUp.take(), wakeUp.take()] == [0, 1])
        wakeUp.clear()
        #expect(wakeUp.take() == nil)
        wakeUp.wake()
        #expect(wakeUp.take() == 0)
    }
}
