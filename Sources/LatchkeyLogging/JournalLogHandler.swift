package import Logging

/// Makes an entry of the journal of each event.
package struct JournalLogHandler: LogHandler {
    package var logLevel = Logger.Level.info
    package var metadata = Logger.Metadata()
    package var metadataProvider: Logger.MetadataProvider?
    private let label: String
    private let sink: JournalSink

    package init(label: String, sink: JournalSink, metadataProvider: Logger.MetadataProvider? = nil) {
        self.label = label
        self.sink = sink
        self.metadataProvider = metadataProvider
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var facts = metadata
        facts.merge(metadataProvider?.get() ?? [:]) { $1 }
        facts.merge(event.metadata ?? [:]) { $1 }
        if let error = event.error { facts["error"] = "\(error)" }
        sink.take(
            JournalEntry(level: event.level, message: event.message.description, metadata: facts), identifier: label)
    }
}
