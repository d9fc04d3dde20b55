import Glibc
import LatchkeyPlatform

/// `latchkey-uhid`: the system service that presents users' passkeys as FIDO devices. systemd
/// starts it at the first connection to its socket, and passes the socket as descriptor 3
/// (sd_listen_fds(3)).
///
/// It uses neither Foundation nor a module above LatchkeyPlatform, to need little memory and to load
/// little code next to `/dev/uhid`.
@main
enum RelayProgram {
    /// The time without a device after which the service ends. systemd starts it again at the next
    /// connection.
    private static let idleTime: Duration = .seconds(60)

    static func main() {
        guard CommandLine.argc == 1 else {
            fail(status: 64, "It takes no arguments. See latchkey-uhid(8).")
        }
        guard let listener = ListeningSocket.passedDescriptor() else {
            fail(
                status: 64,
                "systemd must start it with one socket: latchkey-uhid.socket. See latchkey-uhid(8)."
            )
        }
        // From now on, services see this process's user at the other end of the socket, instead of
        // systemd's.
        guard listen(listener, SOMAXCONN) == 0 else {
            fail(
                status: 71,
                "Descriptor 3 is not a listening socket: \(SystemError.last).")
        }
        var relay = PacketRelay(
            listener: listener,
            openDevice: { open("/dev/uhid", O_RDWR | O_CLOEXEC | O_NONBLOCK) }, log: log)
        while relay.step(until: relay.links.isEmpty ? .now + idleTime : nil)
            || !relay.links.isEmpty
        {}
    }

    /// Writes a line to standard error, preceded by its priority (sd-daemon(3)) unless standard
    /// error is a terminal.
    private static func log(_ severity: PacketRelay.Severity, _ text: String) {
        let priority = isatty(STDERR_FILENO) == 1 ? "" : "<\(severity.rawValue)>"
        let line = "\(priority)\(text)\n"
        _ = write(STDERR_FILENO, line, line.utf8.count)
    }

    private static func fail(status: Int32, _ reason: String) -> Never {
        log(.warning, "Could not start latchkey-uhid: \(reason)")
        exit(status)
    }
}
