import Foundation
import LatchkeySimulators
import Testing

/// An OpenSSH server with its own directory and host key. It serves one connection through the
/// standard input and output of `sshd -i`, so it needs no port.
struct SSHServer {
    static let program = "/usr/sbin/sshd"
    static var isInstalled: Bool { access(program, X_OK) == 0 && access("/usr/bin/ssh", X_OK) == 0 }

    let name: String
    private let configuration: String

    /// - Parameters:
    ///   - authorized: The lines of `authorized_keys`.
    ///   - authority: The public key of an authority for user certificates.
    init(
        _ name: String, for agent: SSHAgent, authorized: String, hostKeyType: String = "ed25519",
        authority: String? = nil
    ) async throws {
        self.name = name
        if geteuid() == 0 {
            // The directory into which sshd changes its root; Debian's unit creates it.
            try? FileManager.default.createDirectory(
                atPath: "/run/sshd", withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o755])
        }
        let folder = agent.directory.path(of: name)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        try await CommandTests.program(
            "ssh-keygen", ["-q", "-t", hostKeyType, "-N", "", "-f", "\(folder)/host"])
        try Data(authorized.utf8).write(to: URL(filePath: "\(folder)/authorized"))
        try Data((authority ?? "").utf8).write(to: URL(filePath: "\(folder)/authority"))
        configuration = "\(folder)/config"
        try Data(
            """
            HostKey \(folder)/host
            AuthorizedKeysFile \(folder)/authorized
            TrustedUserCAKeys \(authority == nil ? "none" : "\(folder)/authority")
            StrictModes no
            UsePAM no
            PasswordAuthentication no
            KbdInteractiveAuthentication no
            PermitRootLogin yes
            LoginGraceTime 0
            PidFile none
            SetEnv PATH=/usr/local/bin:/usr/bin:/bin

            """.utf8
        ).write(to: URL(filePath: configuration))
        let line = try String(contentsOfFile: "\(folder)/host.pub", encoding: .utf8).split(
            separator: " "
        ).prefix(2)
        let hosts = agent.directory.path(of: "known_hosts")
        let known = (try? String(contentsOfFile: hosts, encoding: .utf8)) ?? ""
        try Data("\(known)\(name) \(line.joined(separator: " "))\n".utf8).write(
            to: URL(filePath: hosts))
    }

    /// The command that connects to the server. Its log is a file, because the standard error of a
    /// server in inetd mode is the connection.
    var proxyCommand: String { "\(Self.program) -i -f \(configuration) -E \(configuration).log" }

    /// The arguments of ssh for a login, without a command.
    func login(_ agent: SSHAgent, _ options: [String] = []) -> [String] {
        [
            "-F", "none", "-o", "ProxyCommand=\(proxyCommand)", "-o", "HostKeyAlias=\(name)", "-o",
            "BatchMode=yes",
            "-o", "UserKnownHostsFile=\(agent.directory.path(of: "known_hosts"))", "-o",
            "GlobalKnownHostsFile=/dev/null",
        ] + options + ["\(NSUserName())@\(name)"]
    }
}
