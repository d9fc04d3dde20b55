import Glibc
import Latchkey
import LatchkeyPresence
import Synchronization

/// Handles Ctrl-C: cancels the command, so that the tool can still report that in the requested
/// format. While a prompt for a PIN is on the terminal, the prompt handles Ctrl-C.
///
/// Other signals end the program, after the tool has locked the cards that it uses.
enum Interruption {
    /// The number of seconds that a cancelled command may take to end.
    private static let grace: Int32 = 3
    /// The maximum time to wait until a signal ends the process. Locking the cards takes less.
    private static let endLimit: Duration = .seconds(10)
    /// The pipe for the signals' numbers. The handler uses only this and ``isEnding``.
    private static let pipe = Atomic<Int32>(-1)
    /// Whether the process received a signal that ends it.
    private static let isEnding = Atomic(false)

    /// - Parameters:
    ///   - cancel: Called at the first interrupt.
    ///   - end: Called at the second, or when the command has not ended for a while; ends the
    ///     process.
    ///   - leave: Called before a signal ends the process.
    static func catching(
        cancel: @escaping @Sendable () -> Void, end: @escaping @Sendable () -> Void,
        leave: @escaping @Sendable () -> Void
    ) {
        var ends: [Int32] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let (source, sink) = (ends[0], ends[1])
        pipe.store(sink, ordering: .sequentiallyConsistent)
        // Initializes the static before a handler uses it.
        isEnding.store(false, ordering: .sequentiallyConsistent)
        // This blocks, so it must not run on the cooperative thread pool.
        let isStarted = BlockingThread.start {
            act(on: wait(on: source, milliseconds: -1), leave)
            cancel()
            act(on: wait(on: source, milliseconds: grace * 1000), leave)
            end()
        }
        // Without the thread, signals have their usual effect.
        guard isStarted else { return }
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            SignalCatcher.install(signal) { signal in
                if signal != SIGINT {
                    Interruption.isEnding.store(true, ordering: .sequentiallyConsistent)
                }
                SignalCatcher.forward(signal, to: Interruption.pipe)
            }
        }
    }

    /// Waits until a received signal ends the process, at most ``endLimit``; returns at once
    /// without such a signal. Call it before an exit: the status of an interrupted command would
    /// hide the signal.
    static func waitForEndBySignal() {
        guard isEnding.load(ordering: .sequentiallyConsistent) else { return }
        let deadline = ContinuousClock.now + endLimit
        // A signal ends each sleep.
        while ContinuousClock.now < deadline { sleep(1) }
    }

    /// Ends the process by the signal, unless it is SIGINT, so that the parent process sees the
    /// signal.
    private static func act(on signal: Int32?, _ leave: () -> Void) {
        guard let signal, signal != SIGINT else { return }
        leave()
        var action = sigaction()
        sigaction(signal, &action, nil)
        kill(getpid(), signal)
        // Another thread takes the signal, since this one may block it.
        sleep(1)
        _exit(128 + signal)
    }

    /// Until a signal comes, or the time is over.
    private static func wait(on source: Int32, milliseconds: Int32) -> Int32? {
        var entry = pollfd(fd: source, events: Int16(POLLIN), revents: 0)
        while poll(&entry, 1, milliseconds) < 0, errno == EINTR {}
        guard entry.revents != 0 else { return nil }
        var byte: UInt8 = 0
        return read(source, &byte, 1) == 1 ? Int32(byte) : nil
    }
}
