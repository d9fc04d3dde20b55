import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// The tool at a terminal.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct TerminalCommandTests {
    /// Runs a program in a new session with a controlling terminal. Prints its process ID, then its
    /// exit code or the negative number of the signal that ended it.
    static let launcher = #"""
        import os, sys
        child = os.fork()
        if child == 0:
            os.setsid()
            os.open(sys.argv[1], os.O_RDWR)
            os.execv(sys.argv[2], sys.argv[2:])
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        """#

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP, SIGQUIT])
    func `a signal during a PIN prompt restores the terminal and ends the program`(signal: Int32)
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let made = try await machine.run("key", "create", "--json", pins: ["258036"])
        let id = try #require(made.json()["id"]?.string, "\(made.errors)")
        let terminal = try PseudoTerminal()
        let variables = machine.environment.merging(["LATCHKEY_PIN_SOURCE": "tty"]) { $1 }
        let launcher = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            ["-i"] + variables.map { "\($0)=\($1)" } + [
                "python3", "-c", Self.launcher, terminal.path,
            ]
                + [Products.latchkey.string, "key", "sign", id, "/dev/null"])
        let process = try #require(await launcher.output { _ in true }.firstNumber)
        try await terminal.wait(for: "PIN: ")
        #expect(!terminal.isAsUsual)
        #expect(kill(process, signal) == 0)
        let (status, errors) = await launcher.remainder()
        #expect(status.firstNumber == -signal, "\(errors)")
        #expect(terminal.isAsUsual)
    }

    /// With `--quiet`, and where no user reads standard error, there is no such line.
    @Test func `a TPM that does not answer for two seconds is named on the terminal`() async throws
    {
        let tpm = try SoftwareTPM.current
        let machine = try Machine(tcti: tpm.tcti)
        let id = try #require(
            try await machine.run("key", "create", "--policy", "none", "--json").json()["id"]?
                .string)
        let process = try #require(await tpm.processIdentifier)
        let (terminal, quiet) = (try PseudoTerminal(), try PseudoTerminal())
        try #require(kill(process, SIGSTOP) == 0)
        defer { kill(process, SIGCONT) }
        // The terminal is standard error only.
        let sign = "exec \"$0\" key sign \"$1\" /dev/null \"${@:3}\" 2>\"$2\""
        let variables = machine.environment.map { "\($0)=\($1)" }
        func start(_ terminal: PseudoTerminal, _ options: String...) throws -> RunningProgram {
            try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                ["-i"] + variables + ["bash", "-c", sign, Products.latchkey.string, id]
                    + [terminal.path] + options)
        }
        let silent = try start(quiet, "--quiet")
        let signing = try start(terminal)
        try await terminal.wait(for: "Waiting for the TPM …")
        #expect(kill(process, SIGCONT) == 0)
        for program in [signing, silent] {
            let (output, errors) = await program.remainder()
            #expect(!output.isEmpty, "the signature: \(errors)")
        }
        #expect(quiet.rest().isEmpty)
    }
}

extension String {
    fileprivate var firstNumber: Int32? { Int32(prefix { $0 != "\n" }) }
}
