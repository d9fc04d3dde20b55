import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// The help of the commands, and the answers to mistyped ones.
@Suite(.timeLimit(.minutes(15)))
struct HelpTests {
    private struct Command: Decodable {
        struct Argument: Decodable {
            struct Name: Decodable {
                let name: String
            }

            let names: [Name]?
        }

        let commandName: String
        let arguments: [Argument]?
        let subcommands: [Command]?

        /// The commands without subcommands: the words, and the names of the options.
        func leaves(_ path: [String] = []) -> [(words: [String], options: Set<String>)] {
            let words = path + [commandName]
            let groups = (subcommands ?? []).filter { $0.commandName != "help" }
            guard groups.isEmpty else { return groups.flatMap { $0.leaves(words) } }
            let names = (arguments ?? []).flatMap { $0.names ?? [] }
            return [(words, Set(names.map(\.name)))]
        }
    }

    private struct Dump: Decodable {
        let command: Command
    }

    @Test func `each command has two examples with existing options, and no global options`()
        async throws
    {
        let machine = try Machine(tcti: nil)
        let dump = try await machine.run("--experimental-dump-help").output
        let commands = try JSONDecoder().decode(Dump.self, from: Data(dump.utf8)).command.leaves()
        #expect(commands.count > 50)
        for command in commands {
            let help = try await machine.run(Array(command.words.dropFirst()) + ["--help"]).output
            let name = command.words.joined(separator: " ")
            let examples = help.split(separator: "\n").filter { $0.hasPrefix("  $ \(name)") }
            #expect(examples.count == 2, "\(help)")
            for word in examples.flatMap({ $0.split(separator: " ") }) where word.hasPrefix("--") {
                #expect(command.options.contains(String(word.dropFirst(2))), "\(name): \(word)")
            }
            #expect(!help.contains("--tcti"), "\(name)")
            #expect(help.hasSuffix("\nGlobal options: latchkey --help\n"), "\(name)")
        }
        #expect(try await !machine.run("key", "--help").output.contains("EXAMPLES:"))
        let root = try await machine.run("--help").output
        #expect(root.contains("GLOBAL OPTIONS:") && root.contains("--tcti"))
        #expect(!root.contains("Global options: latchkey --help"))
    }

    @Test(arguments: [
        (["kye", "list"], "latchkey key"), (["lgoin"], "latchkey login"),
        (["key", "lst"], "latchkey key list"), (["auth"], "latchkey authenticate"),
        (["--container", "work", "vualt", "list"], "latchkey vault"),
        (["help", "key", "sgin"], "latchkey key sign"), (["sgin"], "latchkey key sign"),
    ])
    func `a mistyped command is answered with the nearest one`(words: [String], nearest: String)
        async throws
    {
        let outcome = try await Machine(tcti: nil).run(words)
        #expect(outcome.status == 2)
        #expect(outcome.output.isEmpty)
        #expect(outcome.errors.contains("Did you mean ‘\(nearest)’?"), "\(outcome.errors)")
    }

    @Test
    func `a mistyped command of a group, without the group, is answered with those of the groups`()
        async throws
    {
        let outcome = try await Machine(tcti: nil).run("lst")
        #expect(outcome.status == 2)
        for command in ["key list", "ssh list", "vault list"] {
            #expect(outcome.errors.contains("‘latchkey \(command)’"), "\(outcome.errors)")
        }
    }

    @Test(arguments: [
        (["key", "crete"], "latchkey key"), (["vault"], "latchkey vault"), (["lst"], "latchkey"),
    ])
    func `the usage line names the group of the mistake`(words: [String], group: String)
        async throws
    {
        let outcome = try await Machine(tcti: nil).run(words)
        let text = outcome.errors + outcome.output
        let usage = String(try #require(text.firstMatch(of: /(?i)usage: ([^\n]+)/)).1)
        let isOfGroup: Bool = ["<", "["].contains { usage.hasPrefix(group + " " + $0) }
        #expect(isOfGroup, "\(text)")
        guard outcome.status != 0 else { return }
        let error = try await Machine(tcti: nil).run(words + ["--json"]).json()["error"]
        #expect(error?["code"] == "usage")
        #expect(error?["recovery"]?.string?.contains("‘\(group) --help’") == true)
    }

    @Test(arguments: [["--verison"], ["key", "--hlep"], ["key", "create", "--verison"]])
    func `a mistyped option of every command is answered with the nearest one`(words: [String])
        async throws
    {
        let outcome = try await Machine(tcti: nil).run(words)
        #expect(outcome.status == 2)
        let near = words.contains("--hlep") ? "--help" : "--version"
        #expect(outcome.errors.contains("Did you mean '\(near)'?"), "\(outcome.errors)")
        let error = try await Machine(tcti: nil).run(words + ["--json"]).json()["error"]
        #expect(error?["message"]?.string?.contains("Did you mean '\(near)'?") == true)
    }

    @Test(arguments: [["nope"], ["help", "nope"], ["help", "key", "nope"], ["nope", "--help"]])
    func `an unknown command without a near one is a usage error`(words: [String]) async throws {
        let outcome = try await Machine(tcti: nil).run(words)
        #expect(outcome.status == 2)
        #expect(outcome.errors.contains("‘nope’ is not a command of"), "\(outcome.errors)")
        #expect(!outcome.errors.contains("Did you mean"))
    }
}
