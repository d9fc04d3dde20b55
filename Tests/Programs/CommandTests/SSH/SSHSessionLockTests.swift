import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

/// The agent when the user's session locks: systemd-logind as a dbusmock template on a private bus.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "dbus-daemon"),
    .requires(program: "gdbus"),
    .enabled(if: LogindMock.isInstalled, "needs python3-dbusmock"), .timeLimit(.minutes(15)))
struct SSHSessionLockTests {
    private static let mock = "org.freedesktop.DBus.Mock"
    private static let manager = "/org/freedesktop/login1"

    @Test func `the prompt closes when the session locks, and the next request prompts again`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let address = "unix:path=\(directory.path(of: "bus"))"
        let configuration = directory.path(of: "bus.conf")
        try Data(
            """
            <busconfig><type>system</type><listen>\(address)</listen><policy context="default">
            <allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/>
            </policy></busconfig>
            """.utf8
        ).write(to: URL(filePath: configuration))
        let bus = try RunningProgram(
            URL(filePath: "/usr/bin/dbus-daemon"),
            ["--config-file=\(configuration)", "--nofork", "--nopidfile"])
        try await withTeardown({ await bus.stop(SIGKILL) }) {
            #expect(
                await poll { FileManager.default.fileExists(atPath: directory.path(of: "bus")) })
            let logind = try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                [
                    "DBUS_SYSTEM_BUS_ADDRESS=\(address)", LogindMock.python, "-m", "dbusmock",
                    "--system", "--template",
                    "logind",
                ])
            try await withTeardown({ await logind.stop(SIGKILL) }) { try await check(address) }
        }
    }

    private func check(_ address: String) async throws {
        func call(_ path: String, _ method: String, _ arguments: String...) async throws {
            try await program(
                "gdbus",
                [
                    "call", "--address", address, "--dest", "org.freedesktop.login1",
                    "--object-path", path, "--method",
                    "\(Self.mock).\(method)",
                ] + arguments)
        }
        try await program(
            "gdbus", ["wait", "--address", address, "--timeout", "240", "org.freedesktop.login1"])
        try await call(Self.manager, "AddSession", "c1", "seat0", "\(geteuid())", "user", "true")
        // The agent is a user service: its process belongs to no session.
        try await call(
            Self.manager, "AddMethod", "org.freedesktop.login1.Manager", "GetSessionByPID", "u",
            "o",
            "raise dbus.exceptions.DBusException('none', name='org.freedesktop.login1.NoSessionForPID')"
        )
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let log = try await SSHAgent.withRunning(
            machine, hangs: true, extra: ["DBUS_SYSTEM_BUS_ADDRESS": address]
        ) {
            agent in
            let key = try await agent.createKey()
            for count in 1...2 {
                let hasEnded = Mutex(false)
                async let status = {
                    defer { hasEnded.withLock { $0 = true } }
                    return try await agent.client(
                        "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x"
                    )
                    .status
                }()
                #expect(await poll { agent.turns.count == count })
                // The agent may still be subscribing to the signals.
                #expect(
                    try await poll {
                        if hasEnded.withLock({ $0 }) { return true }
                        try await call(
                            "\(Self.manager)/session/c1", "EmitSignal",
                            "org.freedesktop.login1.Session", "Lock", "",
                            "[]")
                        return false
                    })
                #expect(try await status != 0)
            }
        }
        #expect(log.contains("the prompt was cancelled"), "\(log)")
    }
}

/// dbusmock, which scripts/setup installs.
enum LogindMock {
    static let python = "/usr/bin/python3"
    static let isInstalled = FileManager.default.fileExists(
        atPath: "/usr/lib/python3/dist-packages/dbusmock")
}
