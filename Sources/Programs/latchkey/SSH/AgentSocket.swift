import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence

/// The socket of latchkey-agent.socket.
struct AgentSocket {
    static let name = "latchkey/ssh-agent.sock"

    /// In `XDG_RUNTIME_DIR` if that is an absolute path outside `/run/user`, otherwise in
    /// `/run/user/UID`.
    let path: String
    private let isStandard: Bool
    private let hasDesktop: Bool

    init(environment: [String: String]) {
        let other = environment["XDG_RUNTIME_DIR"].flatMap {
            $0.hasPrefix("/") && !$0.hasPrefix("/run/user/") ? $0 : nil
        }
        isStandard = other == nil
        hasDesktop = PinentryPresence.hasDesktop(environment: environment)
        path = "\(other ?? "/run/user/\(getuid())")/\(Self.name)"
    }

    /// The path for ssh_config(5), where `%i` is the user's ID. It names no variable, because ssh
    /// refuses its whole configuration if a variable is not set, as in cron.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a path with characters other than
    ///   ASCII letters, digits and `/ . _ -`. Some of them have a meaning in the file or in a
    ///   shell.
    func sshPath() throws -> String {
        if isStandard { return "/run/user/%i/\(Self.name)" }
        guard path.wholeMatch(of: /[A-Za-z0-9\/._\-]+/) != nil else {
            throw KeystoreError(
                code: .invalidInput,
                reason:
                    "XDG_RUNTIME_DIR has a character that may have a meaning for ssh or the shell",
                recovery:
                    "Use a directory whose path has only the characters A–Z, a–z, 0–9 and / . _ -")
        }
        return path
    }

    /// Whether the socket accepts a connection. systemd accepts it before it starts the agent.
    var isServed: Bool { UNIXSocketAddress(path: path)?.isServed == true }

    /// How to start the agent again.
    var restart: String {
        access("/run/systemd/system", F_OK) == 0
            ? "systemctl --user restart latchkey-agent"
            : "end latchkey-agent, then start it as ‘latchkey ssh install’ shows"
    }

    /// How to start the agent: a clause, and the commands. Without a desktop, only a program in the
    /// foreground of a terminal can prompt.
    var start: String {
        // sd_booted(3)
        if hasDesktop, access("/run/systemd/system", F_OK) == 0 {
            return "Start the agent:\n\n  systemctl --user enable --now latchkey-agent.socket"
        }
        let place = hasDesktop ? "" : " in a terminal of its own, in which it prompts"
        return """
            Start the agent\(place):

              mkdir -m 700 -p \(path.dropLast(AgentSocket.fileName.count))
              latchkey-agent --socket \(path) \(hasDesktop ? "&" : "--pin-source tty")
            """
    }

    private static let fileName = "/ssh-agent.sock"
}
