import Dispatch
import Glibc
import LatchkeyPlatform
import LatchkeySimulators
import Synchronization
import Testing

struct BlockingThreadTests {
    @Test(.timeLimit(.minutes(15))) func `work is done in order, and its errors are thrown`()
        async throws
    {
        let thread = BlockingThread()
        let log = Mutex<[Int]>([])
        for number in 0..<100 { thread.enqueue { log.withLock { $0.append(number) } } }
        #expect(await thread.run { log.withLock { $0.count } } == 100)
        #expect(log.withLock { $0 } == Array(0..<100))
        await #expect(throws: SystemError(EIO)) {
            try await thread.run { () throws(SystemError) -> Int in throw SystemError(EIO) }
        }
    }

    @Test(.timeLimit(.minutes(15))) func `queued work is done after the owner is gone`() async {
        await withCheckedContinuation { continuation in
            BlockingThread().enqueue { continuation.resume() }
        }
    }

    @Test(.timeLimit(.minutes(15))) func `a thread that serves something else is woken for work`()
        async
    {
        let wakes = DispatchSemaphore(value: 0)
        let thread = BlockingThread {
            wakes.wait()
        } wake: {
            wakes.signal()
        }
        #expect(await thread.run { 7 } == 7)
    }

    @Test(.timeLimit(.minutes(15))) func `a wait for a thread ends at its limit`() {
        #expect(BlockingThread.run(within: hangLimit, unstarted: {}) { 7 } == 7)
        let end = DispatchSemaphore(value: 0)
        #expect(BlockingThread.run(within: .milliseconds(20), unstarted: {}) { end.wait() } == nil)
        end.signal()
    }
}
