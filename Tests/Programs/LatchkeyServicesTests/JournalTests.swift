import Foundation
import LatchkeyPlatform
import LatchkeyServices
import LatchkeySimulators
import Logging
import Testing

struct JournalTests {
    @Test func `an event goes to the journal's socket with the metadata of logger and event`()
        throws
    {
        let directory = try TemporaryDirectory()
        let journal = try ListeningJournal(path: directory.path(of: "socket"))
        let stream = try StreamFile(path: directory.path(of: "stderr"))
        var logger = Logger(label: "service") { label in
            JournalLogHandler(
                label: label,
                sink: JournalSink(socketPath: journal.path, fallback: stream.descriptor))
        }
        logger[metadataKey: "peer"] = "7"
        logger.warning("odd", metadata: ["uid": "1000"])
        #expect(
            try journal.next() == """
                PRIORITY=4
                SYSLOG_IDENTIFIER=service
                MESSAGE=odd peer=7 uid=1000
                LATCHKEY_PEER=7
                LATCHKEY_UID=1000

                """)
        logger.debug("not at this level")
        logger.notice("last")
        #expect(try journal.next().contains("MESSAGE=last peer=7\n"))
        #expect(try stream.text().isEmpty)
    }

    @Test func `without the journal's socket, the line contains the priority`() throws {
        let directory = try TemporaryDirectory()
        let stream = try StreamFile(path: directory.path(of: "stderr"))
        let sink = JournalSink(
            socketPath: directory.path(of: "nothing"), fallback: stream.descriptor)
        let logger = Logger(label: "service") { JournalLogHandler(label: $0, sink: sink) }
        logger.error("broken", metadata: ["reason": "no bus"])
        logger.critical("over")
        #expect(try stream.text() == "<3>broken reason=‘no bus’\n<2>over\n")
    }

    @Test func `standard error is the journal only if it is the stream that systemd named`() throws
    {
        let directory = try TemporaryDirectory()
        let stream = try StreamFile(path: directory.path(of: "stream"))
        let other = try StreamFile(path: directory.path(of: "other"))
        let environment = ["JOURNAL_STREAM": try stream.name()]
        #expect(ServiceLog.isJournal(stream.descriptor, environment: environment))
        #expect(!ServiceLog.isJournal(other.descriptor, environment: environment))
        #expect(!ServiceLog.isJournal(stream.descriptor, environment: [:]))
        #expect(
            !ServiceLog.isJournal(stream.descriptor, environment: ["JOURNAL_STREAM": "nonsense"]))
        #expect(ServiceLog.handler(label: "service", environment: [:]) is TextLogHandler)
    }
}

/// A datagram socket in place of the journal's.
private final class ListeningJournal {
    let path: String
    private let descriptor: Int32

    init(path: String) throws {
        self.path = path
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        let address = try #require(UNIXSocketAddress(path: path))
        let status = address.withPointer { bind(descriptor, $0, $1) }
        try #require(status == 0)
    }

    deinit { close(descriptor) }

    /// The next datagram, which the sender's call has already queued.
    func next() throws -> String {
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        try #require(count > 0, "nothing came")
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}

private final class StreamFile {
    let path: String
    let descriptor: Int32

    init(path: String) throws {
        self.path = path
        descriptor = open(path, O_CREAT | O_RDWR, 0o600)
        try #require(descriptor >= 0)
    }

    deinit { close(descriptor) }

    func text() throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

    /// Device and inode, as systemd writes them.
    func name() throws -> String {
        var status = stat()
        try #require(fstat(descriptor, &status) == 0)
        return "\(status.st_dev):\(status.st_ino)"
    }
}
