import Foundation
import Glibc
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// A separate system bus with the distribution's policies and the policy file of this package.
enum SystemBus {
    static let distribution = "/usr/share/dbus-1/system.conf"
    private static let shipped = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "packaging/dbus-1/system.d/org.latchkey.Presence1.conf")

    /// Runs a bus during the closure, which gets its address.
    ///
    /// - Parameters:
    /// - service: The user instead of `latchkey-presenced`, which may not exist where the tests
    ///   run.
    /// - startable: The text of a service file for D-Bus activation.
    static func withRunning(
        as service: UInt32, startable: String? = nil, _ body: (String) async throws -> Void
    ) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let policy = try String(contentsOf: shipped, encoding: .utf8)
            try #require(policy.contains("user=\"latchkey-presenced\""))
            try policy.replacing("user=\"latchkey-presenced\"", with: "user=\"\(service)\"").write(
                toFile: directory.path(of: "shipped.conf"), atomically: true, encoding: .utf8)
            let services = directory.path(of: "services")
            try FileManager.default.createDirectory(
                atPath: services, withIntermediateDirectories: true)
            try startable?.write(
                toFile: "\(services)/\(PresenceWire.name).service", atomically: true,
                encoding: .utf8)
            let base = try String(contentsOfFile: distribution, encoding: .utf8)
                .replacing(#/(?s)<!--.*?-->/#, with: "")
            let policies = base.matches(of: #/(?s)<policy .*?</policy>/#).map { String($0.output) }
            try #require(!policies.isEmpty)
            let address = "unix:path=\(directory.path(of: "bus"))"
            let configuration = """
                <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
                 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
                <busconfig>
                <type>system</type><listen>\(address)</listen><auth>EXTERNAL</auth>
                \(policies.joined(separator: "\n"))
                <include>shipped.conf</include>
                <servicedir>\(services)</servicedir>
                </busconfig>
                """
            try configuration.write(
                toFile: directory.path(of: "bus.conf"), atomically: true, encoding: .utf8)
            chmod(directory.path, 0o711)
            let daemon = try RunningProgram(
                URL(filePath: "/usr/bin/dbus-daemon"),
                [
                    "--config-file=\(directory.path(of: "bus.conf"))", "--nofork", "--nosyslog",
                    "--print-address",
                ])
            let said = await daemon.output { $0.hasPrefix("unix:") }
            let outcome: Result<Void, any Error>
            do {
                try #require(said.hasPrefix("unix:"), "dbus-daemon does not serve")
                outcome = .success(try await body(address))
            } catch {
                outcome = .failure(error)
            }
            await daemon.stop(SIGKILL)
            try outcome.get()
        }
    }
}
