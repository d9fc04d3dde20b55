internal import Glibc
internal import LatchkeyPlatform

/// Serves one connection to a bus on its thread, between the jobs of ``Bus``. sd-bus is not
/// thread-safe, so all its calls run there.
final class BusPump: Sendable {
    private let wakeUp = WakeUp()

    /// Used only on the thread.
    nonisolated(unsafe) var connection: BusConnection?

    func makeThread() -> BlockingThread {
        BlockingThread { [self] in
            connection?.process()
            sleep()
        } wake: { [wakeUp] in
            wakeUp.wake()
        }
    }

    private func sleep() {
        let wait = connection?.wait()
        let watched = wait.map { [($0.descriptor, $0.events)] } ?? []
        // After a failure the connection reports its end.
        let ready = try? Poll.wait(for: watched, until: wait?.deadline, wakeUp: wakeUp)
        if ready?.isWoken == true { wakeUp.clear() }
    }
}
