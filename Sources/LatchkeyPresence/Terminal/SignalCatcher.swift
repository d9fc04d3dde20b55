internal import Glibc
internal import Synchronization

/// Sends the signals that would end or stop the process to a wake-up pipe, so that the terminal can be put back first.
/// Whoever reads the pipe raises the signal again.
enum SignalCatcher {
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]
    /// Where the handler writes: the one thing that it touches. One prompt at a time uses it.
    private static let target = Atomic<Int32>(-1)
    /// `SIG_IGN` as a number: the macro itself does not import.
    private static let ignore = 1

    static func whileCatching<R>(into wakeUp: WakeUp, _ body: () -> R) -> R {
        target.store(wakeUp.writeEnd, ordering: .sequentiallyConsistent)
        let previous = signals.compactMap { signal in install(signal).map { (signal, $0) } }
        defer {
            for (signal, action) in previous {
                var action = action
                sigaction(signal, &action, nil)
            }
            target.store(-1, ordering: .sequentiallyConsistent)
        }
        return body()
    }

    /// - Returns: What stood before; nil where the signal is ignored (nohup): that is left alone.
    private static func install(_ signal: Int32) -> sigaction? {
        var standing = sigaction()
        sigaction(signal, nil, &standing)
        guard unsafeBitCast(standing.__sigaction_handler.sa_handler, to: Int.self) != ignore else { return nil }
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { number in
            var byte = UInt8(truncatingIfNeeded: number)
            let error = errno
            _ = write(SignalCatcher.target.load(ordering: .sequentiallyConsistent), &byte, 1)
            errno = error
        }
        sigaction(signal, &action, nil)
        return standing
    }
}
