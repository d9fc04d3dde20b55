import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence
import Synchronization

/// Handles Ctrl-C: cancels the command, so that the tool can still report that in the requested
/// format, and then ends the process by SIGINT, so that a shell ends its script too. While a prompt
/// for a PIN is on the terminal, the prompt handles Ctrl-C and then raises SIGINT.
///
/// Other signals end the program, after the tool has locked the cards that it uses.
enum Interruption {
    /// The time that a cancelled command may take to end.
    private static let grace: Duration = .seconds(3)
    /// The maximum time to wait until a signal ends the process. Locking the cards takes less.
    private static let endLimit: Duration = .seconds(10)
    /// Gets the signals' numbers.
    private static let wakeUp = WakeUp()
    /// The end of ``wakeUp`` for the handler. The handler uses only this and ``isEnding``.
    private static let pipe = Atomic<Int32>(-1)
    /// Whether the process received a signal that ends it.
    private static let isEnding = Atomic(false)
    /// Whether the process received SIGINT.
    private static let isInterrupted = Atomic(false)

    /// - Parameters:
    ///   - cancel: Called at the first interrupt.
    ///   - end: Called at the second, or when the command has not ended for a while; ends the
    ///     process.
    ///   - leave: Called before a signal ends the process.
    static func catching(
        cancel: @escaping @Sendable () -> Void, end: @escaping @Sendable () -> Void,
        leave: @escaping @Sendable () -> Void
    ) {
        guard wakeUp.isOpen else { return }
        pipe.store(wakeUp.writeEnd, ordering: .sequentiallyConsistent)
        // Initializes the static before a handler uses it.
        isEnding.store(false, ordering: .sequentiallyConsistent)
        isInterrupted.store(false, ordering: .sequentiallyConsistent)
        // This blocks, so it must not run on the cooperative thread pool.
        let isStarted = BlockingThread.start {
            act(on: nextSignal(until: nil), leave)
            cancel()
            act(on: nextSignal(until: .now + grace), leave)
            end()
        }
        // Without the thread, signals have their usual effect.
        guard isStarted else { return }
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            SignalCatcher.install(signal) { signal in
                if signal == SIGINT {
                    Interruption.isInterrupted.store(true, ordering: .sequentiallyConsistent)
                } else {
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

    /// Ends the process by SIGINT if it received that signal. Call it before the exit of a command
    /// that has failed: the parent process cannot see an interruption in the status.
    static func endIfInterrupted(_ leave: () -> Void) {
        guard isInterrupted.load(ordering: .sequentiallyConsistent) else { return }
        end(by: SIGINT, leave)
    }

    /// Ends the process by the signal, unless it is SIGINT, so that the parent process sees the
    /// signal.
    private static func act(on signal: Int32?, _ leave: () -> Void) {
        guard let signal, signal != SIGINT else { return }
        end(by: signal, leave)
    }

    private static func end(by signal: Int32, _ leave: () -> Void) -> Never {
        leave()
        var action = sigaction()
        sigaction(signal, &action, nil)
        kill(getpid(), signal)
        // Another thread takes the signal, since this one may block it.
        sleep(1)
        _exit(128 + signal)
    }

    /// Waits for a signal; nil if none came before the deadline.
    private static func nextSignal(until deadline: ContinuousClock.Instant?) -> Int32? {
        _ = try? Poll.wait(for: [], until: deadline, wakeUp: wakeUp)
        return wakeUp.take().map(Int32.init)
    }
}
