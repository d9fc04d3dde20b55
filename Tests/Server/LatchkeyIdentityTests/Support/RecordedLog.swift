import Logging
import Synchronization

/// Everything that a server logs, down to `trace`.
final class RecordedLog: Sendable {
    private let entries = Mutex<[String]>([])

    /// One line for each entry: level, message, metadata.
    var text: String { entries.withLock { $0.joined(separator: "\n") } }

    var logger: Logger {
        Logger(label: "test") { _ in Handler(log: self) }
    }

    private struct Handler: LogHandler {
        let log: RecordedLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        func log(event: LogEvent) {
            let all = metadata.merging(event.metadata ?? [:]) { $1 }
            log.entries.withLock { $0.append("\(event.level) \(event.message) \(all)") }
        }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
    }
}
