import Foundation
import Glibc
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import latchkey_presenced

/// Programs replace the file of the accounts, and the service sees only the file that it has.
struct AccountsFileTests {
    @Test(arguments: ["rename", "link", "move"])
    func `a replaced file is noticed`(_ way: String) async throws {
        let directory = try TemporaryDirectory()
        let (file, new, old) = (
            directory.path(of: "passwd"), directory.path(of: "passwd+"),
            directory.path(of: "passwd-")
        )
        for path in [file, new] { try Data("x".utf8).write(to: URL(filePath: path)) }
        let (events, event) = AsyncStream.makeStream(of: Void.self)
        try AccountsFile.watch(file) { event.finish() }
        switch way {
        // vipw keeps the old file.
        case "link": #expect(link(file, old) == 0)
        case "move": #expect(rename(file, old) == 0)
        default: break
        }
        #expect(rename(new, file) == 0)
        for await _ in events {}
    }

    @Test(
        .requires(program: "unshare"), .requires(program: "dbus-daemon"),
        .requires(program: "gdbus"), .enabled(if: geteuid() == 0, "needs root for a mount"),
        .softwareTPM)
    func `the service ends, so that the next client gets one with the new accounts`() async throws {
        let directory = try TemporaryDirectory()
        let accounts = directory.path(of: "passwd")
        try FileManager.default.copyItem(atPath: "/etc/passwd", toPath: accounts)
        // The unit binds the file in the same way.
        let program = directory.path(of: "service")
        try """
        #!/bin/bash
        exec unshare --mount --propagation private bash -c \
            'mount --bind "$0" /etc/passwd && exec "$@"' '\(accounts)' '\(BrokerScene.program.path)' "$@"
        """.write(toFile: program, atomically: true, encoding: .utf8)
        #expect(chmod(program, 0o755) == 0)
        try await SignInScene.with(program: URL(filePath: program)) { scene in
            try FileManager.default.copyItem(
                atPath: "/etc/passwd", toPath: directory.path(of: "new"))
            #expect(rename(directory.path(of: "new"), accounts) == 0)
            #expect(await scene.broker.waitForEnd() == 0)
        }
    }
}
