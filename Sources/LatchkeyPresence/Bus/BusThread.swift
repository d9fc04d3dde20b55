internal import Foundation
internal import Glibc
internal import Synchronization

/// An executor whose thread also serves one connection to a bus. sd-bus is not thread-safe, so all its calls run here.
final class BusThread: SerialExecutor {
    /// The thread's work between jobs.
    struct Pump {
        /// Handles received messages.
        let process: () -> Void
        /// The values for `poll`: a descriptor, events, and a timeout in milliseconds (-1 for none).
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

    /// Ends the thread after its remaining jobs, and closes its connection.
    func end() {
        state.withLock { $0.isOver = true }
        wakeUp.wake(1)
    }

    /// Used only on the thread itself.
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

/// A closure that is called exactly once. If it has no result at its end, it gets the error that the connection is
/// closed.
final class Once: Sendable {
    private let receive: Mutex<(@Sendable (Bus.Reply) -> Void)?>

    init(_ receive: @escaping @Sendable (Bus.Reply) -> Void) {
        self.receive = Mutex(receive)
    }

    func give(_ reply: Bus.Reply) {
        let receive = receive.withLock { receive in
            defer { receive = nil }
            return receive
        }
        receive?(reply)
    }

    deinit { give(.failure(.closed)) }
}
