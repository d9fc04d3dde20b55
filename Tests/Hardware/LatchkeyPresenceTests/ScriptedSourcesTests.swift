import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import Testing

@Suite(.timeLimit(.minutes(15)))
struct ScriptedSourcesTests {
    /// The read end of a pipe that contains `text` and, if `isClosed`, has no writer.
    private func pipe(_ text: String, isClosed: Bool = true) throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [-1, -1]
        try #require(Glibc.pipe(&ends) == 0)
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let bytes = Array(text.utf8)
        try #require(Glibc.write(ends[1], bytes, bytes.count) == bytes.count)
        if isClosed { close(ends[1]) }
        return (ends[0], ends[1])
    }

    @Test func `lines are PINs, in the order of the prompts`() async throws {
        let (read, _) = try pipe("2580\ngeheim\nlast")
        defer { close(read) }
        let presence = DescriptorPresence(read)
        #expect(try await presence.pin(request()).text == "2580")
        #expect(try await presence.pin(request(.new)).text == "geheim")
        #expect(try await presence.pin(request()).text == "last")
        let error = await #expect(throws: KeystoreError.self) { try await presence.pin(request()) }
        #expect(error?.code == .unavailable)
    }

    @Test func `a byte order mark is no part of a PIN`() async throws {
        let (read, _) = try pipe("\u{FEFF}2580\n\u{FEFF}\n")
        defer { close(read) }
        let presence = DescriptorPresence(read)
        #expect(try await presence.pin(request()).text == "2580")
        let error = await #expect(throws: KeystoreError.self) { try await presence.pin(request()) }
        #expect(error?.code == .invalidInput)
    }

    @Test func `bytes after the used lines stay in the descriptor`() async throws {
        let (read, _) = try pipe("2580\nfor somebody else")
        defer { close(read) }
        _ = try await DescriptorPresence(read).pin(request())
        var buffer = [UInt8](repeating: 0, count: 64)
        let count = Glibc.read(read, &buffer, buffer.count)
        #expect(String(decoding: buffer[..<max(0, count)], as: UTF8.self) == "for somebody else")
    }

    @Test(arguments: ["\n", "123\n", "12345\r\n", "ab\u{0}cd\n"])
    func `a line that can't be a PIN is invalidInput`(line: String) async throws {
        let (read, _) = try pipe(line)
        defer { close(read) }
        let error = await #expect(throws: KeystoreError.self) {
            try await DescriptorPresence(read).pin(request())
        }
        #expect(error?.code == .invalidInput)
    }

    @Test func `a descriptor that stays silent declines`() async throws {
        let (read, write) = try pipe("", isClosed: false)
        defer {
            close(read)
            close(write)
        }
        let answer = try await DescriptorPresence(read, timeout: .milliseconds(100)).pin(request())
        #expect(answer.refusal?.hasPrefix("no PIN came within") == true)
    }

    @Test func `cancelling ends the wait for a silent descriptor`() async throws {
        let (read, write) = try pipe("", isClosed: false)
        defer {
            close(read)
            close(write)
        }
        let task = Task { try await DescriptorPresence(read).pin(request()) }
        task.cancel()
        #expect(try await task.value.refusal == "the prompt was cancelled")
    }

    @Test func `a descriptor that is not open is refused`() async throws {
        let error = await #expect(throws: KeystoreError.self) {
            try await DescriptorPresence(9999).pin(request())
        }
        #expect(error?.code == .invalidInput)
    }

    @Test func `a file of mode 600 is read line by line`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "pins")
            try store("2580\nпароль\n", in: path, mode: 0o600)
            let presence = try FilePresence(path: path)
            #expect(try await presence.pin(request()).text == "2580")
            #expect(try await presence.pin(request(.new)).text == "пароль")
        }
    }

    @Test(arguments: [0o640, 0o604, 0o620, 0o660])
    func `a file with permissions for others is refused`(mode: mode_t) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "pins")
            try store("2580\n", in: path, mode: mode)
            let error = #expect(throws: KeystoreError.self) { try FilePresence(path: path) }
            #expect(error?.code == .invalidInput)
            #expect(
                error?.reason
                    == "the file \(path) cannot be used: its group or others have rights to it")
        }
    }

    @Test func `a file that other users can replace is refused`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let (folder, open) = (directory.path(of: "open"), directory.path(of: "open/own"))
            try FileManager.default.createDirectory(
                atPath: open, withIntermediateDirectories: true)
            let path = "\(open)/pins"
            try store("2580\n", in: path, mode: 0o600)
            #expect(try await FilePresence(path: path).pin(request()).text == "2580")
            for (place, mode) in [(folder, 0o770 as mode_t), (open, 0o777)] {
                try #require(chmod(place, mode) == 0)
                let error = #expect(throws: KeystoreError.self) { try FilePresence(path: path) }
                #expect(error?.code == .invalidInput)
                #expect(
                    error?.reason
                        == "the file \(path) cannot be used: other users can write \(place)")
                try #require(chmod(place, 0o700) == 0)
            }
            // As in /tmp, other users cannot replace the file.
            for place in [folder, open] {
                try #require(chmod(place, 0o1777) == 0)
                #expect(try await FilePresence(path: path).pin(request()).text == "2580")
            }
            // Another user can make a link to another private file of this user there.
            try #require(link(path, "\(open)/link") == 0)
            let linked = #expect(throws: KeystoreError.self) { try FilePresence(path: path) }
            #expect(linked?.reason.contains("hard link") == true)
        }
    }

    /// A shell's here-document can be a deleted file in /tmp.
    @Test func `a descriptor of a deleted file is read`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "pins")
            try store("2580\n", in: path, mode: 0o600)
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            try #require(descriptor >= 0)
            defer { close(descriptor) }
            try #require(unlink(path) == 0)
            for place in ["/dev/fd", "/proc/self/fd"] {
                let presence = try FilePresence(path: "\(place)/\(descriptor)")
                #expect(try await presence.pin(request()).text == "2580")
            }
        }
    }

    @Test func `a missing file and a directory are refused with the reason`() throws {
        let missing = #expect(throws: KeystoreError.self) {
            try FilePresence(path: "/nonexistent/pins")
        }
        #expect(
            missing?.reason
                == "the file /nonexistent/pins cannot be used: No such file or directory")
        let directory = #expect(throws: KeystoreError.self) { try FilePresence(path: "/tmp") }
        #expect(directory?.reason == "the file /tmp cannot be used: it is a directory")
    }

    private func store(_ text: String, in path: String, mode: mode_t) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
        try #require(chmod(path, mode) == 0)
    }
}
