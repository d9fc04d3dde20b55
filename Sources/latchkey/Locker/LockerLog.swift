import LatchkeyLocker
import Logging

/// The locker's messages, for `--verbose`.
struct LockerLog: LatchkeyLocker.Logger {
    private let log: Logging.Logger

    init(_ log: Logging.Logger) { self.log = log }

    func handleLogMessage(_ message: String, level: LogLevel) {
        // A failure is told by the command itself.
        log.debug("locker: \(message)")
    }
}
