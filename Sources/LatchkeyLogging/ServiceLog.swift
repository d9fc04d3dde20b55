internal import Glibc
package import Logging

/// Where a service's log goes: to the journal where systemd has connected standard error to it, else as text to standard
/// error.
package enum ServiceLog {
    /// The journal's socket for entries with fields (systemd.io, "Native Journal Protocol").
    package static let socketPath = "/run/systemd/journal/socket"

    /// - Parameters:
    ///   - label: The program's name, by which `journalctl -t` finds its entries.
    ///   - environment: The process's; systemd sets `JOURNAL_STREAM` in it.
    package static func handler(label: String, environment: [String: String]) -> any LogHandler {
        guard isJournal(STDERR_FILENO, environment: environment) else {
            return TextLogHandler(label: label)
        }
        return JournalLogHandler(
            label: label, sink: JournalSink(socketPath: socketPath, fallback: STDERR_FILENO),
            metadataProvider: LoggingSystem.metadataProvider)
    }

    /// Whether a descriptor is the stream that `JOURNAL_STREAM` names by device and inode (systemd.exec(5)). A program
    /// whose parent is a service and has sent its output elsewhere has the variable, and another stream.
    package static func isJournal(_ descriptor: Int32, environment: [String: String]) -> Bool {
        var status = stat()
        guard let stream = environment["JOURNAL_STREAM"], fstat(descriptor, &status) == 0 else { return false }
        return stream == "\(status.st_dev):\(status.st_ino)"
    }
}
