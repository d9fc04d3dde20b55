import Foundation
import Glibc
import LatchkeyTestSupport

/// Another program on a test's bus; if the tests run as root, of another user.
struct Stranger {
    /// The id of Debian's overflow user.
    static let nobody: UInt32 = 65534

    let bus: String
    let user: UInt32

    /// - Parameter user: The program's user, if the tests run as root.
    init(on bus: String, as user: UInt32 = nobody) {
        (self.bus, self.user) = (bus, user)
    }

    /// Calls a method of the broker.
    func call(_ method: String, _ arguments: String...) async throws -> (
        status: Int32, text: String
    ) {
        try await call(method, arguments)
    }

    func call(_ method: String, _ arguments: [String]) async throws -> (status: Int32, text: String)
    {
        let process = try begin(method, arguments)
        let written = await process.remainder()
        return (await process.wait(), written.output + written.errors)
    }

    private func begin(_ method: String, _ arguments: [String]) throws -> RunningProgram {
        try start(
            [
                "call", "--address", bus, "--timeout", "300", "--dest", "org.latchkey.Presence1",
                "--object-path",
                "/org/latchkey/Presence1", "--method", "org.latchkey.Presence1.\(method)",
            ] + arguments)
    }

    /// Requests an approval, and waits until the reader waits for the finger. Needs `dbus-monitor`.
    func requestFinger() async throws -> RunningProgram {
        let monitor = try RunningProgram(
            URL(filePath: "/usr/bin/dbus-monitor"),
            ["--address", bus, "type='signal',interface='org.latchkey.Presence1'"])
        // The client is a monitor after it has lost its name.
        _ = await monitor.output { $0.contains("NameLost") }
        let bytes = "[" + Array(repeating: "byte 1", count: 32).joined(separator: ", ") + "]"
        let name = bytes.replacing("[", with: "[byte 0, byte 11, ")
        let request = try begin(
            "Approve", ["sign", name, bytes, bytes, "biometry-any", "0", "rob", "default"])
        _ = await monitor.output { $0.contains("\"waiting\"") }
        await monitor.stop(SIGKILL)
        return request
    }

    /// Calls a method of the bus.
    func askBus(_ method: String, _ arguments: String...) async throws -> (
        status: Int32, text: String
    ) {
        let process = try start(
            [
                "call", "--address", bus, "--dest", "org.freedesktop.DBus", "--object-path",
                "/org/freedesktop/DBus",
                "--method", "org.freedesktop.DBus.\(method)",
            ] + arguments)
        let written = await process.remainder()
        return (await process.wait(), written.output + written.errors)
    }

    /// The unique names of all clients of the bus.
    func names() async throws -> [String] {
        try await askBus("ListNames").text.split(separator: "'").map(String.init).filter {
            $0.hasPrefix(":")
        }
    }

    /// The unique name of the owner of a name.
    func owner(of name: String) async throws -> String {
        try await askBus("GetNameOwner", name).text.split(separator: "'").dropFirst().first.map(
            String.init) ?? ""
    }

    /// Sends a signal to all clients, or to one that may not have subscribed.
    ///
    /// `gdbus` waits at most 25 s for the bus, and the bus closes a connection that is not
    /// authenticated in time, so this tries three times to connect.
    ///
    /// - Returns: The error; empty if the signal was sent.
    func emit(
        _ signal: String, from object: String, _ arguments: String..., to destination: String? = nil
    ) async throws -> String {
        var complaint = ""
        for _ in 0..<3 {
            let process = try start(
                ["emit", "--address", bus] + (destination.map { ["--dest", $0] } ?? [])
                    + ["--object-path", object, "--signal", signal] + arguments)
            complaint = await process.remainder().errors
            let status = await process.wait()
            if status == 0 { return complaint }
            complaint += "(exit \(status))"
            guard
                complaint.hasPrefix("Error connecting")
                    || complaint.contains("The connection is closed")
            else {
                break
            }
        }
        return complaint
    }

    /// Starts `gdbus`.
    func start(_ arguments: [String]) throws -> RunningProgram {
        guard geteuid() == 0 else {
            return try RunningProgram(URL(filePath: "/usr/bin/gdbus"), arguments)
        }
        return try RunningProgram(
            URL(filePath: "/usr/bin/setpriv"),
            ["--reuid=\(user)", "--regid=\(user)", "--clear-groups", "/usr/bin/gdbus"] + arguments)
    }
}
