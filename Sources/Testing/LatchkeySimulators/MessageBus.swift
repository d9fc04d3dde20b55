internal import FoundationEssentials
internal import Glibc
package import Latchkey
internal import Subprocess

/// A private D-Bus system bus: a `dbus-daemon` on a UNIX socket in a directory, with a policy that
/// permits everything.
///
/// Every user who can reach the socket may connect, with that user's UID. The bus does not activate
/// services.
package final class MessageBus: Sendable {
    /// The value of `DBUS_SYSTEM_BUS_ADDRESS` for clients.
    package let address: String
    private let process: ChildProcess

    /// Starts the daemon.
    ///
    /// - Parameter directory: The directory of the socket `bus` and the configuration `bus.conf`.
    /// - Throws: ``KeystoreError`` with code `unavailable` if `dbus-daemon` is not installed or
    ///   does not answer within five minutes.
    package init(in directory: TemporaryDirectory) async throws(KeystoreError) {
        let socket = directory.path(of: "bus")
        address = "unix:path=\(socket)"
        let configuration = directory.path(of: "bus.conf")
        do {
            try Data(Self.configuration(address: address).utf8).write(
                to: URL(filePath: configuration))
        } catch {
            throw .failed(.messageBus, "the configuration file cannot be written", text: "\(error)")
        }
        process = try await ChildProcess(
            "dbus-daemon", arguments: ["--config-file=\(configuration)", "--nofork", "--nosyslog"])
        guard await poll(until: { UNIXSocket(path: socket) != nil }) else {
            let output = await process.end()
            throw .failed(.messageBus, "dbus-daemon did not answer", text: output)
        }
    }

    /// The variables with which a program uses this bus as the system bus.
    var environment: [String: String] { ["DBUS_SYSTEM_BUS_ADDRESS": address] }

    var processIdentifier: Int32 { process.processIdentifier }

    /// Waits until a process owns `name`.
    package func wait(for name: String) async throws(KeystoreError) {
        let result = try await HelperProgram.run(
            "gdbus",
            ["wait", "--address", address, "--timeout", "\(hangLimit.components.seconds)", name],
            within: hangLimit + .seconds(10))
        guard result.isSuccess else {
            throw .failed(.messageBus, "no process owned \(name) in time", text: result.text)
        }
    }

    /// Calls a method.
    ///
    /// - Parameter method: The interface and the method, `org.example.Interface.Method`.
    /// - Returns: The output of `gdbus`: the reply or the error.
    func call(
        _ method: String, of object: String, at name: String, _ arguments: String...,
        within limit: Duration = hangLimit
    ) async throws(KeystoreError) -> HelperProgram.Result {
        try await HelperProgram.run(
            "gdbus",
            [
                "call", "--address", address, "--dest", name, "--object-path", object, "--method",
                method,
            ] + arguments,
            within: limit)
    }

    package func end() async {
        await process.end()
    }

    /// The configuration, with the time limit for authentication of `session.conf`. The default, 30
    /// s, is too short on a busy machine.
    private static func configuration(address: String) -> String {
        """
        <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
        <busconfig>
          <type>system</type>
          <listen>\(address)</listen>
          <limit name="auth_timeout">240000</limit>
          <policy context="default">
            <allow user="*"/>
            <allow own="*"/>
            <allow send_type="method_call"/>
            <allow send_type="signal"/>
            <allow send_requested_reply="true"/>
            <allow receive_type="method_call"/>
            <allow receive_type="method_return"/>
            <allow receive_type="error"/>
            <allow receive_type="signal"/>
          </policy>
        </busconfig>

        """
    }
}
