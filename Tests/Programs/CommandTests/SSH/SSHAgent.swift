import Foundation
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTestSupport
import Subprocess
import SystemPackage
import Testing

/// A running `latchkey-agent` of a machine, and the programs that use it.
///
/// Its PIN prompts come from a script that follows pinentry's protocol: it records the texts, and
/// answers with the PIN.
final class SSHAgent: Sendable {
    static let pin = "258025"

    /// What the user does with a prompt for a server to which the agent is forwarded.
    enum ForwardedAnswer: String {
        case pin = #"answer"#
        case refusal = #"echo 'ERR 83886179 Operation cancelled <Pinentry>'"#
        /// The prompt stays open.
        case none = #"exec sleep 100000"#
    }

    let machine: Machine
    let directory: TemporaryDirectory
    private let process: RunningProgram

    /// - Parameters:
    ///   - hangs: Whether the prompt waits forever.
    ///   - extra: More variables for the agent's environment.
    init(
        _ machine: Machine, hangs: Bool = false, pin: String = pin,
        forwarded: ForwardedAnswer = .pin, starter: [String]? = nil, extra: [String: String] = [:]
    ) async throws {
        self.machine = machine
        directory = try TemporaryDirectory()
        let answer =
            hangs
            ? #"echo "$$" >"$0.pid"; exec sleep 100000"#
            : #"""
            if rm "$0.wrong" 2>/dev/null; then echo 'D 000000'; else echo 'D \#(pin)'; fi
            echo end >>"$0.turns"; echo OK
            """#
        let script = try directory.makeScript(
            "pinentry",
            """
            #!/bin/sh
            echo begin >>"$0.turns"
            echo OK
            answer() { \(answer); }
            while read -r command text; do
              case $command in
                SETDESC) printf '%s\\n' "$text" >>"$0.texts"; seen=$text; echo OK ;;
                GETPIN) case $seen in *'asked from'*) \(forwarded.rawValue) ;; *) answer ;; esac ;;
                BYE) echo OK; exit ;;
                *) echo OK ;;
              esac
            done
            """)
        var variables = machine.environment
        variables["LATCHKEY_PIN_SOURCE"] = "pinentry"
        variables["PINENTRY_PROGRAM"] = script
        // No bus: the prompts must not depend on the machine's presence broker.
        variables["DBUS_SYSTEM_BUS_ADDRESS"] = "unix:path=\(directory.path(of: "no-bus"))"
        // Neither the tester's agent nor the tester's desktop.
        variables["SSH_AUTH_SOCK"] = ""
        variables["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=\(directory.path(of: "no-bus"))"
        variables.merge(extra) { $1 }
        let program = [
            Products.agent.string, "--verbose", "--known-hosts", directory.path(of: "known_hosts"),
            "--agent-limit", "20",
        ]
        let socket = directory.path(of: "agent")
        process = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            variables.map { "\($0.key)=\($0.value)" }
                + (starter.map { $0 + [socket] + program } ?? program + ["--socket", socket]))
        // The file exists before the agent listens.
        guard await poll(until: { UNIXSocketAddress(path: socket)?.isServed == true }) else {
            await process.stop(SIGKILL)
            Issue.record("the agent did not start: \(await process.remainder().errors)")
            return
        }
    }

    /// Runs `body` with an agent, then ends the agent.
    ///
    /// - Returns: The agent's log.
    @discardableResult
    static func withRunning(
        _ machine: Machine, hangs: Bool = false, pin: String = pin,
        forwarded: ForwardedAnswer = .pin, starter: [String]? = nil, extra: [String: String] = [:],
        _ body: (SSHAgent) async throws -> Void
    ) async throws -> String {
        let agent = try await SSHAgent(
            machine, hangs: hangs, pin: pin, forwarded: forwarded, starter: starter, extra: extra)
        try await withTeardown({ await agent.stop() }) { try await body(agent) }
        return await agent.process.remainder().errors
    }

    /// Ends the agent, as systemd does.
    func stop() async { await process.stop() }

    var id: Int32 { process.id }
    var socket: String { directory.path(of: "agent") }

    /// The texts of the prompts so far, with pinentry's escapes removed.
    var prompts: [String] { Self.lines(directory.path(of: "pinentry.texts")) }

    /// `begin` and `end` of each prompt.
    var turns: [String] { Self.lines(directory.path(of: "pinentry.turns")) }

    private static func lines(_ path: String) -> [String] {
        ((try? String(contentsOfFile: path, encoding: .utf8)) ?? "").split(separator: "\n").map {
            String($0).removingPercentEncoding ?? String($0)
        }
    }

    /// The user mistypes the next PIN.
    func mistypeNextPIN() throws {
        try Data().write(to: URL(filePath: directory.path(of: "pinentry.wrong")))
    }

    /// Creates an SSH key, and writes its public key to a file.
    ///
    /// - Returns: The path of the file.
    func createKey(_ label: String = "work", _ arguments: [String] = [], pins: [String] = [pin])
        async throws -> String
    {
        let created = try await machine.run(
            ["key", "create", "--ssh", "--label", label] + arguments, pins: pins)
        try #require(created.status == 0, "\(created.errors)")
        return try await exportKey(label)
    }

    func exportKey(_ label: String) async throws -> String {
        let path = directory.path(of: "\(label).pub")
        let exported = try await machine.run("ssh", "export", label)
        try #require(exported.status == 0, "\(exported.errors)")
        try Data(exported.output.utf8).write(to: URL(filePath: path))
        return path
    }

    /// The environment of the agent's clients.
    var clientEnvironment: [String: String] {
        [
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin", "HOME": directory.path,
            "SSH_AUTH_SOCK": socket,
            "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
        ]
    }

    /// Runs a client of the agent in the directory.
    func client(_ name: String, _ arguments: [String], input: String = "") async throws -> Outcome {
        let result = try await Subprocess.run(
            name.hasPrefix("/") ? .path(FilePath(name)) : .name(name),
            arguments: Arguments(arguments),
            environment: .custom(Machine.keys(clientEnvironment)),
            workingDirectory: FilePath(directory.path),
            input: try .file(with: input.utf8), output: .string(limit: 1 << 20),
            error: .string(limit: 1 << 20))
        let status: Int32? =
            if case .exited(let code) = result.terminationStatus { code } else { nil }
        return Outcome(status: status, output: result.standardOutput, errors: result.standardError)
    }

    /// Runs a shell script as a client.
    func shell(_ script: String) async throws -> Outcome {
        try await client("/bin/sh", ["-ec", script])
    }
}
