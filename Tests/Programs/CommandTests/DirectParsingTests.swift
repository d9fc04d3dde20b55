import LatchkeySimulators
import Testing

/// An option before the command makes the tool parse the arguments of all commands of the path.
/// Otherwise it parses only the arguments of the last. The results are the same.
@Suite(.timeLimit(.minutes(15)))
struct DirectParsingTests {
    @Test(arguments: [
        ["key", "list"], ["key", "list", "--all", "--json"], ["key", "list", "--"],
        ["status", "--container", "work"],
        ["status", "--help"], ["key", "sign", "-h"], ["status", "--version"], ["key", "sign"],
        ["key", "list", "extra"], ["key", "list", "list"], ["status", "--bogus"],
        ["status", "--container"],
        ["key", "create", "--label", "--json"], ["key", "create", "--policy", "sometimes"],
        ["locker", "easy-access", "change", "extra"], ["key"], ["key", "bogus"],
        ["status", "--generate-completion-script"],
        ["help", "key", "list"], ["status", "--presence=nobody"], ["status", "--json=1"],
    ])
    func `arguments have the same result with and without the parser of the path`(
        arguments: [String]
    ) async throws {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        let direct = try await machine.run(arguments)
        let whole = try await machine.run(["--quiet"] + arguments)
        #expect(direct.status == whole.status)
        #expect(direct.output == whole.output)
        #expect(direct.errors == whole.errors)
    }

    @Test func `errors and help name all commands of the path`() async throws {
        let machine = try Machine(tcti: nil)
        #expect(try await machine.run("key", "sign").errors.contains("Usage: latchkey key sign "))
        #expect(
            try await machine.run("key", "list", "--help").output.contains(
                "USAGE: latchkey key list "))
        #expect(
            try await machine.run("key", "list", "--version").output
                == "\(try await machine.run("--version").output)")
    }
}
