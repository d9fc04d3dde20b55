import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// The values that shells complete.
@Suite(.timeLimit(.minutes(15)))
struct CompletionTests {
    @Test func `options with fixed values offer them`() async throws {
        let script = try await Machine(tcti: nil).run("--generate-completion-script", "fish").output
        let lines = script.split(separator: "\n")
        for (option, values) in [
            ("policy", "pin user-presence biometry-any biometry-current-set"),
            ("token-login", "auto pin reader"), ("token-isolation", "auto always never"),
            ("pin-source", "tty pinentry fd: file:"),
        ] {
            let places = lines.filter { $0.contains("-l '\(option)'") }
            #expect(!places.isEmpty)
            #expect(places.allSatisfy { $0.hasSuffix("\(values)'") }, "\(places)")
        }
    }

    /// Asks as a completion script does.
    private func values(_ command: [String], _ typed: String, on machine: Machine) async throws
        -> [Substring]
    {
        let words = ["latchkey"] + command + [typed]
        let outcome = try await machine.run(
            ["---completion"] + command
                + ["--", "positional@0", "\(words.count - 1)", "\(typed.utf8.count)"] + words)
        #expect(outcome.status == 0, "\(outcome.errors)")
        return outcome.output.split(separator: "\n")
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `names of stored keys, vaults and credentials are offered without a prompt`() async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        #expect(try await values(["key", "show"], "", on: machine).isEmpty)
        #expect(
            !FileManager.default.fileExists(atPath: machine.databasePath),
            "a completion creates no store")
        // bash would run a command in a name.
        for label in ["laptop", "desktop", "$(id)", "`id`", "a b", "a'b", "a\\b"] {
            try await machine.require("key", "create", "--policy", "none", "--label", label)
        }
        try await machine.require("vault", "store", "database", input: "secret")
        let answer = #"{"access_token":"a","token_type":"Bearer","expires_in":60}"#
        let server = ["LATCHKEY_ENDPOINT": "http://127.0.0.1:9", "LATCHKEY_CLIENT_ID": "app"]
        let added = try await machine.run(
            ["credential", "add", "--json"], input: answer, extra: server
        ).json()
        let id = try #require(added["id"]?.string)
        #expect(
            try await values(["key", "show"], "", on: machine).sorted() == ["desktop", "laptop"])
        #expect(try await values(["key", "show"], "des", on: machine) == ["desktop"])
        #expect(try await values(["pin", "change"], "des", on: machine) == ["desktop"])
        #expect(try await values(["vault", "show"], "", on: machine) == ["database"])
        #expect(try await values(["credential", "show"], "", on: machine) == [id[...]])
    }
}
