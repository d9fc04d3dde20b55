internal import Glibc
internal import Latchkey

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
            wakeUp.wake(1)
        }
    }

    private func sleep() {
        var watched = [pollfd(fd: wakeUp.readEnd, events: Int16(POLLIN), revents: 0)]
        var milliseconds: Int32 = -1
        if let wait = connection?.wait() {
            watched.append(pollfd(fd: wait.descriptor, events: wait.events, revents: 0))
            milliseconds = wait.milliseconds
        }
        poll(&watched, nfds_t(watched.count), milliseconds)
        var bytes = [UInt8](repeating: 0, count: 64)
        if watched[0].revents != 0 { _ = read(wakeUp.readEnd, &bytes, bytes.count) }
    }
}
