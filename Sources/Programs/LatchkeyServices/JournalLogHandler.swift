internal import Glibc
internal import LatchkeyPlatform
package import Logging

/// Sends each log event to the journal as an entry.
package struct JournalLogHandler: LogHandler {
    package var logLevel = Logger.Level.info
    package var metadata = Logger.Metadata()
    package var metadataProvider: Logger.MetadataProvider?
    private let label: String
    private let sink: JournalSink

    package init(label: String, sink: JournalSink, metadataProvider: Logger.MetadataProvider? = nil)
    {
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
            JournalEntry(level: event.level, message: event.message.description, metadata: facts),
            identifier: label)
    }
}

/// Sends entries to the journal: with all their fields through its socket, or, if that fails, as
/// lines through the stream that systemd has connected to it.
package final class JournalSink: Sendable {
    private let socketPath: String
    private let descriptor: Int32
    private let fallback: Int32

    /// - Parameters:
    ///   - socketPath: The journal's socket; at most 107 bytes.
    ///   - fallback: A descriptor that is connected to the journal. The caller owns it.
    package init(socketPath: String, fallback: Int32) {
        self.socketPath = socketPath
        self.fallback = fallback
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    func take(_ entry: JournalEntry, identifier: String) {
        guard !send(entry.datagram(identifier: identifier)) else { return }
        let line = Array(entry.line.utf8)
        // A failure of this write cannot be reported anywhere.
        _ = write(fallback, line, line.count)
    }

    /// Sends by path each time, because the journal can restart at any time.
    private func send(_ datagram: [UInt8]) -> Bool {
        guard let address = UNIXSocketAddress(path: socketPath), descriptor >= 0 else {
            return false
        }
        return address.withPointer { address, size in
            sendto(
                descriptor, datagram, datagram.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL),
                address, size)
                == datagram.count
        }
    }
}
