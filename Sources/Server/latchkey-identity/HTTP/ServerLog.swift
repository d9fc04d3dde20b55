import Latchkey
import Logging

/// Log output on standard error. Values can come from clients, so control characters are escaped.
struct ServerLog: LogHandler {
    private var output: StreamLogHandler

    init(label: String) { output = .standardError(label: label) }

    var logLevel: Logger.Level {
        get { output.logLevel }
        set { output.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { output.metadata }
        set { output.metadata = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { output[metadataKey: key] }
        set { output[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        var event = event
        event.metadata = event.metadata?.mapValues {
            .string(String(escaping: "\($0)", maximumBytes: 1_000))
        }
        output.log(event: event)
    }
}
