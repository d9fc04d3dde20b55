internal import Glibc

/// The log of a program that names none: standard error in debug builds, nothing in others.
struct StandardErrorLogger: Logger {
    func handleLogMessage(_ message: String, level: LogLevel) {
        #if DEBUG
            let line = Array("locker: \(message)\n".utf8)
            _ = write(STDERR_FILENO, line, line.count)
        #endif
    }
}
