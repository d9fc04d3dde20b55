import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// What the user sees when the login's port refuses a request, and other ways to the port.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .requires(program: "openssl"), .requires(program: "curl"), .timeLimit(.minutes(15)))
struct LoginPortTests {
    private static let curl = "curl --silent --location --noproxy * --output /dev/null"

    /// A browser that first does something else with the address.
    private func browser(_ machine: Machine, _ first: String) throws -> String {
        try machine.directory.makeScript(
            "browser", "#!/bin/sh\n\(first)\nexec \(Self.curl.replacing("*", with: "'*'")) \"$1\"\n"
        )
    }

    @Test(
        .enabled(if: geteuid() == 0, "being two users takes root"), .requires(program: "setpriv"))
    func `a connection of another user is reported once, with the user`() async throws {
        try await OddServer.with { machine, _ in
            let stranger =
                "setpriv --reuid=65534 --regid=65534 --clear-groups curl --silent --noproxy '*' \"$1\""
            let browser = try browser(machine, "\(stranger)\n\(stranger)\n\(stranger)")
            let outcome = try await machine.run("login", "--quiet", extra: ["BROWSER": browser])
            #expect(outcome.status == 0, "\(outcome)")
            let lines = outcome.errors.split(separator: "\n").filter {
                $0.contains("another user (user ID 65534)")
            }
            #expect(lines.count == 1, "\(outcome)")
            #expect(lines.first?.contains("ssh -L ") == true, "\(outcome)")
        }
    }

    @Test(arguments: [
        ("?error=invalid_scope&error_description=Words", "‘invalid_scope’ (Words)"),
        ("?code=c", "a code without ‘state’"),
        ("?code=c&state=old", "the answer to another login"),
    ])
    func `an answer that is refused is reported once, and the login completes`(
        query: String, words: String
    ) async throws {
        try await OddServer.with { machine, _ in
            let get =
                "curl --silent --noproxy '*' --output /dev/null \"${1%/start/*}/callback\(query)\""
            let browser = try browser(machine, "\(get)\n\(get)")
            let outcome = try await machine.run("login", "--quiet", extra: ["BROWSER": browser])
            #expect(outcome.status == 0, "\(outcome)")
            #expect(
                outcome.errors.split(separator: "\n").filter { $0.contains(words) }.count == 1,
                "\(outcome)")
        }
    }

    @Test func `requests that are no answer are not reported`() async throws {
        try await OddServer.with { machine, _ in
            let gets = ["/", "/favicon.ico", "/callback?x=1", "/start/x"].map {
                "curl --silent --noproxy '*' --output /dev/null \"${1%/start/*}\($0)\""
            }
            let browser = try browser(machine, gets.joined(separator: "\n"))
            let outcome = try await machine.run("login", "--quiet", extra: ["BROWSER": browser])
            #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        }
    }

    /// The advice of the notice and of a login in an SSH session, followed with a real server.
    @Test(.enabled(if: SSHServer.isInstalled, "sshd is not installed"))
    func
        `a browser on another computer reaches the login through the port forwarding that is advised`()
        async throws
    {
        try await OddServer.with { machine, _ in
            var machine = machine
            machine.environment["SSH_CONNECTION"] = "192.0.2.1 50000 192.0.2.2 22"
            // A second program runs the advised command, as the user's other computer does.
            let remote = try await RemoteComputer(in: machine.directory)
            let note = machine.directory.path(of: "address")
            machine.environment["BROWSER"] = try machine.directory.makeScript(
                "browser", "#!/bin/sh\necho \"$1\" > '\(note).new'; mv '\(note).new' '\(note)'\n")
            let login = Task { [machine] in try await machine.run("login") }
            #expect(await poll { FileManager.default.fileExists(atPath: note) })
            let address = try String(contentsOfFile: note, encoding: .utf8).trimmingCharacters(
                in: .whitespacesAndNewlines)
            let port = try #require(URLComponents(string: address)?.port)
            try await remote.visit(address, port: port)
            let outcome = try await login.value
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.errors.contains("‘ssh -L \(port):127.0.0.1:\(port)’"), "\(outcome)")
        }
    }

    @Test(arguments: [
        "/nonexistent/browser:\(curl)", "false:\(curl)", ":/bin/false::\(curl):true",
        "no-such-browser:\(curl) %s",
    ])
    func `each program in BROWSER is tried until one succeeds`(browser: String) async throws {
        try await OddServer.with { machine, _ in
            let outcome = try await machine.run("login", extra: ["BROWSER": browser])
            #expect(outcome.status == 0, "\(outcome)")
            #expect(!outcome.errors.contains("cannot be started"), "\(outcome)")
        }
    }

    @Test func `without a program that works, each is named with its failure`() async throws {
        try await OddServer.with { machine, _ in
            let outcome = try await machine.run(
                "login", killedAfter: "Open this address in a browser yourself",
                extra: ["BROWSER": "/nonexistent/browser:false"])
            #expect(
                outcome.errors.contains("‘/nonexistent/browser’ cannot be started"), "\(outcome)")
            #expect(outcome.errors.contains("‘false’ failed"), "\(outcome)")
        }
    }
}

/// The user's other computer: an OpenSSH client with its own network address, as far as the server
/// can tell. It forwards a port with `ssh -L`, and its browser uses the forwarded port.
private struct RemoteComputer {
    private let directory: TemporaryDirectory
    private let configuration: String

    init(in directory: TemporaryDirectory) async throws {
        self.directory = directory
        if geteuid() == 0 {
            try? FileManager.default.createDirectory(
                atPath: "/run/sshd", withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o755])
        }
        configuration = directory.path(of: "sshd_config")
        for name in ["host", "user"] {
            try await program(
                "ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", directory.path(of: name)])
        }
        try Data(
            """
            HostKey \(directory.path(of: "host"))
            AuthorizedKeysFile \(directory.path(of: "user.pub"))
            StrictModes no
            UsePAM no
            PermitRootLogin yes
            PidFile none

            """.utf8
        ).write(to: URL(filePath: configuration))
    }

    /// Opens the address through the forwarding. The local end is another port, because both ends are
    /// on this machine, and the browser connects to it instead.
    func visit(_ address: String, port: Int) async throws {
        let local = directory.path(of: "forwarded")
        let ssh = try RunningProgram(
            URL(filePath: "/usr/bin/ssh"),
            [
                "-F", "none", "-N", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
                "-o", "UserKnownHostsFile=/dev/null", "-i", directory.path(of: "user"),
                "-o",
                "ProxyCommand=\(SSHServer.program) -i -f \(configuration) -E \(configuration).log",
                "-L", "\(local):127.0.0.1:\(port)", "\(NSUserName())@login",
            ])
        try #require(await poll { FileManager.default.fileExists(atPath: local) })
        let page = try await SystemProgram("curl").result(of: [
            "--silent", "--noproxy", "*", "--output", "/dev/null", "--write-out",
            "%{http_code} %{redirect_url}", "--unix-socket", local, address,
        ]).output.split(separator: " ").map(String.init)
        try #require(page.count == 2 && page[0] == "303", "\(page)")
        // The server's answer leads to the login's port, again through the forwarding.
        let answer = try await SystemProgram("curl").result(of: [
            "--silent", "--noproxy", "*", "--output", "/dev/null", "--write-out", "%{redirect_url}",
            page[1],
        ]).output
        let done = try await SystemProgram("curl").result(of: [
            "--silent", "--noproxy", "*", "--output", "/dev/null", "--write-out", "%{http_code}",
            "--unix-socket", local, answer,
        ]).output
        #expect(done == "200")
        await ssh.stop(SIGKILL)
    }
}
