internal import Foundation
internal import Glibc
internal import Synchronization

/// Runs an actor on a thread that also serves one connection to a bus: sd-bus knows no locks, so everything that touches
/// the connection happens here.
final class BusThread: SerialExecutor {
    /// What the thread does between jobs.
    struct Pump {
        /// Handles what has come in.
        let process: () -> Void
        /// What to wait for: a descriptor, `poll` events, and at most so many milliseconds (-1 for ever).
        let wait: () -> (descriptor: Int32, events: Int16, milliseconds: Int32)
        let close: () -> Void
    }

    private struct State {
        var jobs: [UnownedJob] = []
        var isOver = false
    }

    private let state = Mutex(State())
    private let wakeUp = WakeUp()

    init() {
        let thread = Thread { [self] in run() }
        thread.name = "org.latchkey.bus"
        thread.start()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(job) }
        wakeUp.wake(1)
    }

    /// Ends the thread, once it has done what was asked of it, and closes its connection.
    func end() {
        state.withLock { $0.isOver = true }
        wakeUp.wake(1)
    }

    /// Set and used on the thread itself only, by jobs and between them.
    nonisolated(unsafe) var pump: Pump?

    private func run() {
        while true {
            let (jobs, isOver) = state.withLock { state in
                defer { state.jobs = [] }
                return (state.jobs, state.isOver)
            }
            for job in jobs { job.runSynchronously(on: asUnownedSerialExecutor()) }
            if !jobs.isEmpty { continue }
            if isOver { break }
            pump?.process()
            sleep()
        }
        pump?.close()
        pump = nil
    }

    private func sleep() {
        var watched = [pollfd(fd: wakeUp.readEnd, events: Int16(POLLIN), revents: 0)]
        var milliseconds: Int32 = -1
        if let wait = pump?.wait() {
            watched.append(pollfd(fd: wait.descriptor, events: wait.events, revents: 0))
            milliseconds = wait.milliseconds
        }
        poll(&watched, nfds_t(watched.count), milliseconds)
        var bytes = [UInt8](repeating: 0, count: 64)
        if watched[0].revents != 0 { _ = read(wakeUp.readEnd, &bytes, bytes.count) }
    }
}
