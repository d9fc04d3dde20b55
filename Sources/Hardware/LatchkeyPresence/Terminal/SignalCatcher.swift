package import Glibc
internal import LatchkeyPlatform
package import Synchronization

/// Writes the numbers of caught signals to a pipe, whose reader acts on them.
package enum SignalCatcher {
    /// `SIG_IGN` as a number. Swift does not import the macro.
    private static let ignore = 1
    private static let promptSignals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT]
    /// The pipe of the running prompt; one prompt runs at a time.
    private static let promptPipe = Atomic<Int32>(-1)

    /// Whether the process ignores the signal, for example under nohup.
    package static func isIgnored(_ signal: Int32) -> Bool {
        var action = sigaction()
        sigaction(signal, nil, &action)
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == ignore
    }

    /// Installs a handler, unless the process ignores the signal (for example under nohup). Of
    /// SIGCONT it is always installed.
    ///
    /// - Parameter handler: Calls ``forward(_:to:)``, and otherwise uses only atomic values.
    /// - Returns: The previous action; nil if the signal stays ignored.
    @discardableResult
    package static func install(
        _ signal: Int32, _ handler: @escaping @convention(c) (Int32) -> Void
    ) -> sigaction? {
        // A process that ignores SIGCONT continues too, and must then look at its terminal.
        guard signal == SIGCONT || !isIgnored(signal) else { return nil }
        var (action, previous) = (sigaction(), sigaction())
        action.__sigaction_handler.sa_handler = handler
        sigaction(signal, &action, &previous)
        return previous
    }

    /// Writes the signal's number to a pipe as one byte, and preserves `errno`. Async-signal-safe.
    package static func forward(_ signal: Int32, to pipe: borrowing Atomic<Int32>) {
        var byte = UInt8(truncatingIfNeeded: signal)
        let error = errno
        _ = write(pipe.load(ordering: .sequentiallyConsistent), &byte, 1)
        errno = error
    }

    /// Raises a signal on this thread, even if the thread blocks it. The handler has run when this
    /// returns; with kill(2) it could run later, on another thread.
    static func raise(_ signal: Int32) {
        var (signals, previous) = (sigset_t(), sigset_t())
        sigemptyset(&signals)
        sigaddset(&signals, signal)
        pthread_sigmask(SIG_UNBLOCK, &signals, &previous)
        _ = Glibc.raise(signal)
        pthread_sigmask(SIG_SETMASK, &previous, nil)
    }

    /// Catches the signals that end, stop or continue the process during a prompt, so that the
    /// terminal is restored first. The reader of the pipe raises the signal again.
    static func whileCatching<R>(into wakeUp: WakeUp, _ body: () -> R) -> R {
        promptPipe.store(wakeUp.writeEnd, ordering: .sequentiallyConsistent)
        let previous = promptSignals.compactMap { signal in
            install(signal) { SignalCatcher.forward($0, to: SignalCatcher.promptPipe) }.map {
                (signal, $0)
            }
        }
        defer {
            for (signal, action) in previous {
                var action = action
                sigaction(signal, &action, nil)
            }
            promptPipe.store(-1, ordering: .sequentiallyConsistent)
        }
        return body()
    }
}
