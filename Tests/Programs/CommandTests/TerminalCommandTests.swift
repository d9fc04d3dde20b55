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
    private static let launcher = #"""
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
}

extension String {
    fileprivate var firstNumber: Int32? { Int32(prefix { $0 != "\n" }) }
}
