import FoundationEssentials
import Glibc
import Latchkey

/// Looks at what stands between a smart card and PKCS#11 on this machine: pcscd, and programs that keep a card to
/// themselves.
struct ReaderExamination {
    /// pcscd's socket, compiled into it.
    static let socket = "/run/pcscd/pcscd.comm"

    /// What keeps every card from being seen, where something does.
    func problem() -> Check? {
        guard isInstalled, !isRunning else { return nil }
        return .problem(
            "readers", "The smart card service pcscd does not run, so no reader or YubiKey is seen.",
            "Start it: sudo systemctl enable --now pcscd.socket", .unavailable)
    }

    /// What else may be the cause when a card is not seen.
    func hint() -> String {
        if isScdaemonRunning {
            return "GnuPG's scdaemon runs and may hold the card: run ‘gpgconf --kill scdaemon’ and try again."
        }
        guard isRunning else { return "" }
        return "Where no reader is seen although one is plugged in, polkit may refuse you: pcscd serves users at the"
            + " console only, unless a rule for org.debian.pcsc-lite.access_pcsc says otherwise."
    }

    var isInstalled: Bool {
        ["/usr/sbin/pcscd", "/usr/bin/pcscd", "/usr/local/sbin/pcscd"].contains {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }

    /// Whether somebody answers at the socket. systemd answers there and starts pcscd.
    var isRunning: Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let fits = withUnsafeMutableBytes(of: &address.sun_path) { path in
            guard Self.socket.utf8.count < path.count else { return false }
            path.copyBytes(from: Self.socket.utf8)
            return true
        }
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard fits, descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
    }

    /// Whether a GnuPG daemon that takes cards for itself runs, anybody's.
    private var isScdaemonRunning: Bool {
        let processes = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return processes.contains { process in
            guard process.allSatisfy(\.isNumber) else { return false }
            return (try? String(contentsOfFile: "/proc/\(process)/comm", encoding: .utf8)) == "scdaemon\n"
        }
    }
}
