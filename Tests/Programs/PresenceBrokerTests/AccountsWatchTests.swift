import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_presenced

/// Programs replace the file of the accounts, and the service sees only the file that it has.
struct AccountsWatchTests {
    @Test(arguments: ["rename", "link", "move"])
    func `a replaced file is noticed`(_ way: String) async throws {
        let directory = try TemporaryDirectory()
        let (file, new, old) = (
            directory.path(of: "passwd"), directory.path(of: "passwd+"),
            directory.path(of: "passwd-")
        )
        for path in [file, new] { try Data("x".utf8).write(to: URL(filePath: path)) }
        let (events, event) = AsyncStream.makeStream(of: Void.self)
        try AccountsWatch.watch(file) { event.finish() }
        switch way {
        // vipw keeps the old file.
        case "link": #expect(link(file, old) == 0)
        case "move": #expect(rename(file, old) == 0)
        default: break
        }
        #expect(rename(new, file) == 0)
        for await _ in events {}
    }

    /// The unit binds the file before the program starts.
    @Test func `a file that was replaced before the watch is noticed`() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.path(of: "passwd")
        try Data("x".utf8).write(to: URL(filePath: file))
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        #expect(unlink(file) == 0)
        let (events, event) = AsyncStream.makeStream(of: Void.self)
        try AccountsWatch.watch("/proc/self/fd/\(descriptor)") { event.finish() }
        for await _ in events {}
    }

    @Test func `the wait for open requests has a limit`() async {
        var count = 0
        let isServed = await AccountsWatch.isServed(
            within: .milliseconds(20), every: .milliseconds(1)
        ) {
            count += 1
            return false
        }
        #expect(isServed && count > 0)
    }
}
