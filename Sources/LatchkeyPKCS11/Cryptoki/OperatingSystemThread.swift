internal import Glibc

/// A thread of the operating system, for C that blocks. It is detached: it ends with its work, and nobody waits for it.
enum OperatingSystemThread {
    /// - Returns: whether the system had a thread to give.
    @discardableResult
    static func start(_ work: @escaping @Sendable () -> Void) -> Bool {
        var thread = pthread_t()
        let box = Unmanaged.passRetained(Box(work))
        let status = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, box.toOpaque())
        if status == 0 {
            pthread_detach(thread)
        } else {
            box.release()
        }
        return status == 0
    }

    private final class Box: Sendable {
        private let work: @Sendable () -> Void

        init(_ work: @escaping @Sendable () -> Void) { self.work = work }

        func run() {
            // p11-kit writes to the socket of a process that was killed; the signal for that would end ours.
            var signals = sigset_t()
            sigemptyset(&signals)
            sigaddset(&signals, SIGPIPE)
            pthread_sigmask(SIG_BLOCK, &signals, nil)
            work()
        }
    }
}
