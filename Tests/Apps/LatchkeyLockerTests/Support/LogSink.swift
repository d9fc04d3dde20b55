import LatchkeyLocker
import Synchronization

/// Keeps every message.
final class LogSink: Logger {
    private let kept = Mutex<[String]>([])

    var messages: [String] { kept.withLock { $0 } }
    func handleLogMessage(_ message: String, level: LogLevel) {
        kept.withLock { $0.append(message) }
    }
}
