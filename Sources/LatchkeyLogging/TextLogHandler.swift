internal import Latchkey
package import Logging

/// Writes events as text to standard error, in lines that nothing in a message or a value can end, hide or turn around.
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
        set { stream.metadataProvider = newValue.map { provider in .init { Self.lines(provider.get()) } } }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { stream[metadataKey: key] }
        set { stream[metadataKey: key] = newValue.map(Self.line) }
    }

    package func log(event: LogEvent) {
        var event = event
        event.message = "\(String(escaping: event.message.description, maximumBytes: JournalEntry.longestValue))"
        if let error = event.error { event.metadata = (event.metadata ?? [:]).merging(["error": "\(error)"]) { $1 } }
        event.error = nil
        event.metadata = event.metadata.map(Self.lines)
        stream.log(event: event)
    }

    private static func lines(_ metadata: Logger.Metadata) -> Logger.Metadata { metadata.mapValues(line) }

    private static func line(_ value: Logger.Metadata.Value) -> Logger.Metadata.Value {
        .string(String(escaping: "\(value)", maximumBytes: JournalEntry.longestValue))
    }
}
