import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTesting
import SystemPackage
import Testing

/// Searches for the PIN in the process that received it, in its output, and in its core dump.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct DisclosureTests {
    private static let pin = "Losung 7291 nicht verraten"

    /// Runs a program on a new terminal in a new directory for its core dump, types the PIN at the
    /// first prompt, and kills the program with SIGABRT at the second, while the PIN is in its
    /// memory. Prints where the PIN is.
    private static let watcher = """
        import json, os, pty, resource, signal, sys
        directory, typed, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
        signal.alarm(300)
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.chdir(directory)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(command[0], command)
        screen, places = b"", {}
        try:
            while True:
                data = os.read(terminal, 4096)
                if not data:
                    break
                screen += data
                if b"again: " in screen:
                    for name in ["cmdline", "environ"]:
                        places[name] = open(f"/proc/{pid}/{name}", "rb").read()
                    os.kill(pid, signal.SIGABRT)
                    break
                if b"PIN: " in screen and typed:
                    os.write(terminal, typed + b"\\r")
                    typed = b""
        except OSError:
            pass
        status = os.waitpid(pid, 0)[1]
        places["screen"] = screen
        for name in os.listdir("."):
            places[name] = open(name, "rb").read()
        print(json.dumps({
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "places": sorted(places), "found": sorted(n for n in places if sys.argv[2].encode() in places[n])}))
        """

    private struct Sight: Decodable {
        let signal: Int32
        let places: [String]
        let found: [String]
    }

    private func look(at command: [String], environment: [String: String]) async throws -> Sight {
        let directory = try TemporaryDirectory()
        let text = try await program(
            "python3", ["-c", Self.watcher, directory.path, Self.pin] + command,
            // A debug build would start Swift's debugger on the terminal.
            environment: environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 })
        withExtendedLifetime(directory) {}
        return try JSONDecoder().decode(Sight.self, from: Data(text.utf8))
    }

    @Test func `a typed PIN is not in arguments, variables, output or core dumps`() async throws {
        // Control: a program that has the PIN in memory without protection.
        let careless = """
            import termios, sys
            settings = termios.tcgetattr(0)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(0, termios.TCSANOW, settings)
            pin = input("PIN: ")
            again = input("again: ")
            """
        let control = try await look(at: ["/usr/bin/python3", "-c", careless], environment: [:])
        let dumps = control.found.filter { $0.hasPrefix("core") }

        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let sight = try await look(
            at: [Products.latchkey.string, "key", "create", "--verbose"],
            environment: machine.environment)
        #expect(
            sight.signal == SIGABRT && sight.places.contains("cmdline")
                && sight.places.contains("environ"))
        #expect(sight.found.isEmpty)
        // If the kernel passes core dumps to a handler, the control leaves none here either.
        #expect(dumps.isEmpty || !sight.places.contains { $0.hasPrefix("core") })
    }

    @Test func `a PIN is not in the output, even with --verbose`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run(
            ["key", "create", "--policy", "pin", "--json", "--verbose"], pins: [Self.pin])
        #expect(created.status == 0)
        let id = try #require(created.json()["id"]?.string)
        let signed = try await machine.run(
            ["key", "sign", id, "/dev/null", "--json", "--verbose"], pins: [Self.pin])
        #expect(signed.status == 0)
        // Errors do not contain the wrong PIN.
        let refused = try await machine.run(
            ["key", "sign", id, "/dev/null", "--verbose"], pins: [Self.pin + "!"])
        #expect(refused.status == 4)
        for outcome in [created, signed, refused] {
            #expect(!outcome.output.contains(Self.pin) && !outcome.errors.contains(Self.pin))
        }
        #expect(!signed.errors.isEmpty && !refused.errors.isEmpty)
    }
}
