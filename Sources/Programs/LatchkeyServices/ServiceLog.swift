internal import Glibc
internal import Latchkey
package import Logging

/// Chooses a service's log: the journal if systemd has connected standard error to it, otherwise
/// text on standard error.
package enum ServiceLog {
    /// The journal's socket for entries with fields (systemd.io, "Native Journal Protocol").
    package static let socketPath = "/run/systemd/journal/socket"

    /// - Parameters:
    ///   - label: The program's name, for `journalctl -t`.
    ///   - environment: The process's environment; systemd sets `JOURNAL_STREAM` in it.
    package static func handler(label: String, environment: [String: String]) -> any LogHandler {
        guard isJournal(STDERR_FILENO, environment: environment) else {
            return TextLogHandler(label: label)
        }
        return JournalLogHandler(
            label: label, sink: JournalSink(socketPath: socketPath, fallback: STDERR_FILENO),
            metadataProvider: LoggingSystem.metadataProvider)
    }

    /// Whether a descriptor is the stream that `JOURNAL_STREAM` names by device and inode
    /// (systemd.exec(5)). A child process of a service inherits the variable, but can have another
    /// stream.
    package static func isJournal(_ descriptor: Int32, environment: [String: String]) -> Bool {
        var status = stat()
        guard let stream = environment["JOURNAL_STREAM"], fstat(descriptor, &status) == 0 else {
            return false
        }
        return stream == "\(status.st_dev):\(status.st_ino)"
    }
}

/// Writes events as lines of text to standard error. No message or value can end, hide or reverse a
/// line.
package struct TextLogHandler: LogHandler {
    private var stream: StreamLogHandler

    package init(label: String) {
        stream = StreamLogHandler.standardError(label: label)
    }

    package var logLevel: Logger.Level {
        get { stream.logLevel }
        set { stream.logLevel = newValue }
    }

    package var metadata: Logger.Metadata {
        get { stream.metadata }
        set { stream.metadata = Self.lines(newValue) }
    }

    package var metadataProvider: Logger.MetadataProvider? {
        get { stream.metadataProvider }
        set {
            stream.metadataProvider = newValue.map { provider in
                .init { Self.lines(provider.get()) }
            }
        }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { stream[metadataKey: key] }
        set { stream[metadataKey: key] = newValue.map(Self.line) }
    }

    package func log(event: LogEvent) {
        var event = event
        event.message =
            "\(String(escaping: event.message.description, maximumBytes: JournalEntry.longestValue))"
        if let error = event.error {
            event.metadata = (event.metadata ?? [:]).merging(["error": "\(error)"]) { $1 }
        }
        event.error = nil
        event.metadata = event.metadata.map(Self.lines)
        stream.log(event: event)
    }

    private static func lines(_ metadata: Logger.Metadata) -> Logger.Metadata {
        metadata.mapValues(line)
    }

    private static func line(_ value: Logger.Metadata.Value) -> Logger.Metadata.Value {
        .string(String(escaping: "\(value)", maximumBytes: JournalEntry.longestValue))
    }
}
