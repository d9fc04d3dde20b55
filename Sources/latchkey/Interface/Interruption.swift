import Dispatch
import Glibc
import Synchronization

/// Ctrl-C: declines whatever the tool waits for, so that it can still say so in the form that was asked for. While a
/// prompt for a PIN is on the terminal, that prompt catches it itself.
///
/// The other signals that end a program do so here too, after the tool has locked the cards that it uses.
enum Interruption {
    /// How long a command may take to end by itself.
    private static let grace: Int32 = 3
    /// Where the handler writes: the one thing that it touches.
    private static let target = Atomic<Int32>(-1)
    /// `SIG_IGN` as a number: the macro itself does not import.
    private static let ignore = 1

    /// - Parameters:
    ///   - cancel: Called at the first interrupt.
    ///   - end: Called at the second, or when the command has not ended for a while; ends the process.
    ///   - leave: Called before a signal ends the process.
    static func catching(
        cancel: @escaping @Sendable () -> Void, end: @escaping @Sendable () -> Void,
        leave: @escaping @Sendable () -> Void
    ) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let (source, sink) = (ends[0], ends[1])
        target.store(sink, ordering: .sequentiallyConsistent)
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] { install(signal) }
        // Blocks, which the cooperative pool must not.
        DispatchQueue(label: "org.latchkey.interruption").async {
            act(on: wait(on: source, milliseconds: -1), leave)
            cancel()
            act(on: wait(on: source, milliseconds: grace * 1000), leave)
            end()
        }
    }

    private static func install(_ signal: Int32) {
        var standing = sigaction()
        sigaction(signal, nil, &standing)
        // Under nohup it is not for us.
        guard unsafeBitCast(standing.__sigaction_handler.sa_handler, to: Int.self) != ignore else { return }
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { signal in
            var byte = UInt8(truncatingIfNeeded: signal)
            let error = errno
            _ = write(Interruption.target.load(ordering: .sequentiallyConsistent), &byte, 1)
            errno = error
        }
        sigaction(signal, &action, nil)
    }

    /// Ends the process by the signal, if it is one that does, so that its parent sees which one it was.
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
