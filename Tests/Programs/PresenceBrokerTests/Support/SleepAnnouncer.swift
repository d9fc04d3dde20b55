import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// A login manager that only announces sleep, on a bus of the test.
struct SleepAnnouncer {
    private static let name = "org.freedesktop.login1"
    private static let path = "/org/freedesktop/login1"
    private static let manager = "org.freedesktop.login1.Manager"

    private let address: String
    private let program: RunningProgram

    init(on address: String) async throws {
        self.address = address
        program = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            [
                "DBUS_SYSTEM_BUS_ADDRESS=\(address)", "/usr/bin/python3", "-m", "dbusmock",
                "--system", Self.name, Self.path, Self.manager,
            ])
        try #require(
            await poll {
                try await call(
                    "org.freedesktop.DBus", "/org/freedesktop/DBus",
                    ["org.freedesktop.DBus.GetNameOwner", Self.name])
            }, "the login manager did not start")
    }

    /// Announces the sleep to one program, because fprintd itself reacts to it.
    ///
    /// - Parameter name: The program's name on the bus.
    func announce(_ begins: Bool, to name: String) async throws {
        let owner = try await HelperProgram.run(
            "gdbus",
            [
                "call", "--address", address, "--dest", "org.freedesktop.DBus", "--object-path",
                "/org/freedesktop/DBus", "--method", "org.freedesktop.DBus.GetNameOwner", name,
            ])
        let unique = try #require(owner.text.split(separator: "'").dropFirst().first)
        try #require(
            await call(
                Self.name, Self.path,
                [
                    "org.freedesktop.DBus.Mock.EmitSignalDetailed", Self.manager,
                    "PrepareForSleep", "b", "[<\(begins)>]", "{'destination': <'\(unique)'>}",
                ]))
    }

    func end() async { await program.stop(SIGKILL) }

    private func call(_ name: String, _ path: String, _ method: [String]) async throws -> Bool {
        try await HelperProgram.run(
            "gdbus",
            ["call", "--address", address, "--dest", name, "--object-path", path, "--method"]
                + method
        ).isSuccess
    }
}
