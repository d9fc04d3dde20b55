import Dispatch
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import Testing

@Suite(.timeLimit(.minutes(15)))
struct FilePresenceTests {
    private static let isRoot = geteuid() == 0

    /// Waiting in `open` for a writer would block the thread. A writer ends that if the test hangs.
    private func withFIFO(_ body: (String) async throws -> Void) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "fifo")
            try #require(mkfifo(path, 0o600) == 0)
            DispatchQueue.global().asyncAfter(deadline: .now() + hangLimit / .seconds(1)) {
                close(open(path, O_RDWR | O_NONBLOCK))
            }
            try await body(path)
        }
    }

    @Test func `the wait for a FIFO's writer ends at the deadline`() async throws {
        try await withFIFO { path in
            let presence = try FilePresence(path: path, timeout: .milliseconds(100))
            #expect(
                try await presence.pin(request()).refusal?.hasPrefix("no PIN came within") == true)
        }
    }

    @Test func `a FIFO's writer can come after its reader and leave`() async throws {
        try await withFIFO { path in
            let presence = try FilePresence(path: path)
            #expect(!presence.isInteractive)
            let writer = open(path, O_WRONLY | O_NONBLOCK)
            try #require(writer >= 0)
            let line = Array("2580\nlast".utf8)
            try #require(write(writer, line, line.count) == line.count)
            close(writer)
            #expect(try await presence.pin(request()).text == "2580")
            #expect(try await presence.pin(request()).text == "last")
            let error = await #expect(throws: KeystoreError.self) {
                try await presence.pin(request())
            }
            #expect(error?.code == .unavailable)
        }
    }

    @Test(.enabled(if: isRoot, "giving a file away takes root"))
    func `another user's FIFO is refused`() async throws {
        try await withFIFO { path in
            try #require(chown(path, 65_534, 65_534) == 0)
            let writer = open(path, O_RDWR | O_NONBLOCK)
            defer { close(writer) }
            let error = #expect(throws: KeystoreError.self) { try FilePresence(path: path) }
            #expect(error?.code == .invalidInput)
            #expect(error?.reason.hasSuffix("cannot be used: it belongs to another user") == true)
        }
    }

    @Test func `a FIFO that others can write to and a device are refused`() async throws {
        try await withFIFO { path in
            try #require(chmod(path, 0o622) == 0)
            let writer = open(path, O_RDWR | O_NONBLOCK)
            defer { close(writer) }
            let fifo = #expect(throws: KeystoreError.self) { try FilePresence(path: path) }
            #expect(
                fifo?.reason.hasSuffix("cannot be used: its group or others have rights to it")
                    == true)
            let device = #expect(throws: KeystoreError.self) { try FilePresence(path: "/dev/zero") }
            #expect(
                device?.reason.hasSuffix("cannot be used: it is neither a regular file nor a FIFO")
                    == true)
        }
    }
}
