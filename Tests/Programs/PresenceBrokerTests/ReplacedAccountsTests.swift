import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The service, in a mount namespace that binds the file as its unit does.
@Suite(
    .requires(program: "unshare"), .requires(program: "dbus-daemon"), .requires(program: "gdbus"),
    .enabled(if: geteuid() == 0, "needs root for a mount"), .softwareTPM)
struct ReplacedAccountsTests {
    /// The file of the service's namespace.
    private struct Accounts {
        /// A shell command that replaces it.
        let replace: String
        /// If a file has this path, it is replaced between the mount and the start of the program.
        let early: String
    }

    private static func with(
        reader: VirtualFingerprintReader? = nil,
        _ body: (SignInScene, Accounts) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory()
        let (accounts, new) = (directory.path(of: "passwd"), directory.path(of: "passwd+"))
        try FileManager.default.copyItem(atPath: "/etc/passwd", toPath: accounts)
        let replace = "cp /etc/passwd '\(new)' && mv -f '\(new)' '\(accounts)'"
        let early = directory.path(of: "early")
        let program = directory.path(of: "service")
        try """
        #!/bin/bash
        exec unshare --mount --propagation private bash -c \
            'mount --bind "$0" /etc/passwd && { [ ! -e "$1" ] || eval "$2"; } && shift 2 && exec "$@"' \
            '\(accounts)' '\(early)' "\(replace)" '\(BrokerScene.program.path)' "$@"
        """.write(toFile: program, atomically: true, encoding: .utf8)
        #expect(chmod(program, 0o755) == 0)
        try await SignInScene.with(
            busAddress: reader?.busAddress, prints: reader?.printsDirectory,
            program: URL(filePath: program)
        ) { scene in
            try await body(scene, Accounts(replace: replace, early: early))
        }
    }

    /// The user answers a prompt a second after another user called chfn.
    @Test func `an open sign-in is served, then the service ends, and the next client starts it`()
        async throws
    {
        try await Self.with { scene, accounts in
            try await scene.allow()
            try await scene.check(
                "auth 1 test -", "!\(accounts.replace) && sleep 1", "pin \(SignInScene.pin)",
                answers: ["ask pin", "yes"])
            #expect(await scene.broker.waitForEnd() == 0)
        }
    }

    /// Another user called chfn after systemd bound the file.
    @Test func `a service that starts with a file that was replaced ends`() async throws {
        try await Self.with { scene, accounts in
            await scene.broker.stop()
            #expect(FileManager.default.createFile(atPath: accounts.early, contents: nil))
            try await scene.broker.start(isShortLived: true)
            #expect(await scene.broker.waitForEnd() == 0)
        }
    }

    @Test(.requires(program: "fprintd-enroll"), .requires(program: "dbus-monitor"), .virtualFinger)
    func `an open request at the bus is served before the service ends`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightThumb, as: "mine", for: "nobody")
        try await Self.with(reader: reader) { scene, accounts in
            let request = try await Stranger(on: reader.busAddress).requestFinger()
            let changed = try await HelperProgram.run(
                "bash", ["-c", "\(accounts.replace) && sleep 1"])
            #expect(changed.isSuccess, "\(changed.text)")
            try await reader.present(.finger("mine"))
            #expect(await request.wait() == 0)
            #expect(await scene.broker.waitForEnd() == 0)
        }
    }
}
