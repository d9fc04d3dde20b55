import Dispatch
import Glibc
import Synchronization

/// Ctrl-C: declines whatever the tool waits for, so that it can still say so in the form that was asked for. While a
/// prompt for a PIN is on the terminal, that prompt catches it itself.
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
    static func catching(cancel: @escaping @Sendable () -> Void, end: @escaping @Sendable () -> Void) {
        var standing = sigaction()
        sigaction(SIGINT, nil, &standing)
        // Under nohup it is not for us.
        guard unsafeBitCast(standing.__sigaction_handler.sa_handler, to: Int.self) != ignore else { return }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let (source, sink) = (ends[0], ends[1])
        target.store(sink, ordering: .sequentiallyConsistent)
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in
            var byte: UInt8 = 0
            let error = errno
            _ = write(Interruption.target.load(ordering: .sequentiallyConsistent), &byte, 1)
            errno = error
        }
        sigaction(SIGINT, &action, nil)
        // Blocks, which the cooperative pool must not.
        DispatchQueue(label: "org.latchkey.interruption").async {
            wait(on: source, milliseconds: -1)
            cancel()
            wait(on: source, milliseconds: grace * 1000)
            end()
        }
    }

    /// Until a byte comes, or the time is over.
    private static func wait(on source: Int32, milliseconds: Int32) {
        var entry = pollfd(fd: source, events: Int16(POLLIN), revents: 0)
        while poll(&entry, 1, milliseconds) < 0, errno == EINTR {}
        guard entry.revents != 0 else { return }
        var byte: UInt8 = 0
        _ = read(source, &byte, 1)
    }
}
