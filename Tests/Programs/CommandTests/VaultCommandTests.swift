import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// `latchkey vault` on a real software TPM, one process per command.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct VaultCommandTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    @Test func `a secret goes in and comes out, byte for byte`() async throws {
        let machine = try machine()
        let secret = "s3cret ‘x’\nof two lines"
        let stored = try await machine.run("vault", "store", "app", "--json", input: secret)
        #expect(stored.status == 0, "\(stored.errors)")
        #expect(
            try stored.json() == ["name": "app", "state": "keychain", "biometricsEnabled": false])
        let shown = try await machine.run("vault", "show", "app")
        #expect(shown.status == 0 && shown.output == secret, "\(shown.errors)")
        #expect(try await machine.run("vault", "show").output == secret)
        #expect(try await machine.run("vault", "update", "app", input: "other\n").status == 0)
        #expect(try await machine.run("vault", "show", "app").output == "other\n")
        #expect(
            try await machine.run("vault", "reset", "app", "--yes", "--json").json()["state"]
                == "empty")
        #expect(try await machine.run("vault", "show", "app").status == 6)
    }

    @Test func `a vault with biometrics opens only with the PIN`() async throws {
        let machine = try machine()
        let stored = try await machine.run(
            "vault", "store", "app", "--biometrics", pins: ["2580"], input: "s3cret")
        #expect(stored.status == 0, "\(stored.errors)")
        #expect(
            try await machine.run("vault", "status", "app", "--json").json()["state"] == "locked")
        #expect(try await machine.run("vault", "show", "app", pins: ["2580"]).output == "s3cret")
        let wrong = try await machine.run("vault", "show", "app", pins: ["1111"])
        #expect(wrong.status == 4 && wrong.output.isEmpty)
        let nobody = try await machine.run("vault", "show", "app", pins: [])
        #expect(nobody.status != 0 && nobody.output.isEmpty)
        #expect(
            try await machine.run("vault", "unlock", "app", "--json", pins: ["2580"]).json()[
                "state"] == "biometrics")
        #expect(try await machine.run("vault", "lock", "app", "--json").json()["state"] == "locked")
        #expect(
            try await machine.run("vault", "update", "app", pins: ["2580"], input: "new").status
                == 0)
        #expect(
            try await machine.run("vault", "downgrade", "app", "--json", pins: ["2580"]).json()[
                "state"] == "keychain")
        #expect(try await machine.run("vault", "show", "app").output == "new")
        #expect(
            try await machine.run("vault", "upgrade", "app", "--json", pins: ["1357"]).json()[
                "state"] == "biometrics")
        #expect(try await machine.run("vault", "show", "app", pins: ["1357"]).output == "new")
    }

    @Test func `a secret is in no JSON, no argument and no log`() async throws {
        let machine = try machine()
        _ = try await machine.run("vault", "store", "app", input: "canary")
        for arguments in [
            ["show", "app", "--json"], ["status", "app", "--json"], ["show", "app", "--verbose"],
        ] {
            let outcome = try await machine.run(["vault"] + arguments)
            #expect(outcome.status == 0)
            #expect(!outcome.errors.contains("canary"))
            if arguments.contains("--json") { #expect(!outcome.output.contains("canary")) }
        }
        let bytes = try Data(contentsOf: URL(filePath: machine.databasePath))
        #expect(bytes.firstRange(of: Data("canary".utf8)) == nil)
    }

    @Test func `each vault error has its exit code`() async throws {
        let machine = try machine()
        #expect(try await machine.run("vault", "show").status == 6)
        #expect(try await machine.run("vault", "store", "app").status == 2)
        #expect(try await machine.run("vault", "store", "app", input: "x").status == 0)
        #expect(try await machine.run("vault", "store", "app", input: "x").status == 10)
        #expect(try await machine.run("vault", "unlock", "app").status == 1)
        #expect(
            try await machine.run("vault", "upgrade", "app", "--policy", "none", pins: ["2580"])
                .status == 2)
        #expect(try await machine.run("vault", "store", "b", input: "y").status == 0)
        #expect(try await machine.run("vault", "show").status == 2)
        let text = try await machine.run("vault", "list").output
        #expect(text == "app  bound to the TPM or token\nb  bound to the TPM or token\n")
        let listed = try await machine.run("vault", "list", "--json")
        #expect(
            listed.output.contains(#"{"biometricsEnabled":false,"name":"app","state":"keychain"}"#))
        #expect(try await machine.run("vault", "status", "--container", "other").status == 6)
        let offline = ["LATCHKEY_TCTI": "swtpm:path=/nonexistent"]
        #expect(try await machine.run("vault", "status", "app", extra: offline).status == 0)
        #expect(try await machine.run("vault", "show", "app", extra: offline).status == 7)
        #expect(try await machine.run("vault", "reset", "app", "--yes", extra: offline).status == 0)
    }

    @Test func `each command but store fails for a vault that does not exist`() async throws {
        let machine = try machine()
        #expect(try await machine.run("vault", "store", "app", input: "x").status == 0)
        for command in [
            "show", "update", "upgrade", "downgrade", "lock", "unlock", "status", "reset",
        ] {
            let absent = try await machine.run("vault", command, "nope", "--json", input: "x")
            #expect(absent.status == 6, "\(command)")
            let error = try absent.json()["error"]
            #expect(error?["code"] == "notFound")
            #expect(error?["message"]?.string?.hasSuffix("there is no vault ‘nope’.") == true)
        }
        #expect(
            try await machine.run("vault", "reset", "app", "--yes").output
                == "The vault ‘app’ is deleted.\n"
        )
        #expect(try await machine.run("vault", "list").output == "There are no vaults.\n")
    }

    @Test func `a forgotten PIN ends with the last vault that has it`() async throws {
        let machine = try machine()
        func store(_ name: String, _ pin: String, in container: String = "default") async throws
            -> Outcome
        {
            try await machine.run(
                [
                    "vault", "store", name, "--biometrics", "--policy", "pin", "--container",
                    container,
                ], pins: [pin], input: "x")
        }
        for name in ["one", "two"] { #expect(try await store(name, "2580").status == 0) }
        #expect(try await machine.run("vault", "reset", "one", "--yes").status == 0)
        let wrong = try await store("one", "1379")
        #expect(wrong.status == 4)
        #expect(wrong.errors.contains("delete all secrets of this container"), "\(wrong.errors)")
        #expect(try await store("one", "1379", in: "other").status == 0)
        #expect(try await machine.run("vault", "reset", "two", "--yes").status == 0)
        #expect(try await store("one", "1379").status == 0)
    }

    @Test func `for the name of a vault, pin change names the option for vaults`() async throws {
        let machine = try machine()
        #expect(try await machine.run("vault", "store", "app", input: "x").status == 0)
        let outcome = try await machine.run("pin", "change", "app")
        #expect(outcome.status == 6)
        #expect(outcome.errors.contains("‘latchkey pin change --secrets’"), "\(outcome.errors)")
    }

    @Test func `an old vault that does not meet the minimum policy gets no new secret`()
        async throws
    {
        let machine = try machine()
        #expect(try await machine.run("vault", "store", "app", input: "old").status == 0)
        #expect(
            try await machine.run(
                "vault", "store", "pin", "--biometrics", "--policy", "pin", pins: ["2580"],
                input: "old"
            ).status == 0)
        #expect(try await machine.run("config", "set", "minimum-policy", "pin").status == 0)
        let refused = try await machine.run("vault", "update", "app", "--json", input: "new")
        #expect(refused.status == 2, "\(refused)")
        let error = try refused.json()["error"]
        #expect(error?["message"]?.string?.contains("minimum policy ‘pin’") == true, "\(refused)")
        #expect(error?["recovery"]?.string == "Run ‘latchkey vault upgrade’ first.")
        #expect(try await machine.run("vault", "show", "app").output == "old")
        #expect(try await machine.run("vault", "upgrade", "app", pins: ["2580"]).status == 0)
        for name in ["app", "pin"] {
            let updated = try await machine.run(
                "vault", "update", name, pins: ["2580"], input: "new")
            #expect(updated.status == 0, "\(updated)")
        }
        #expect(
            try await machine.run("config", "set", "minimum-policy", "biometry-any").status == 0)
        let weaker = try await machine.run("vault", "update", "pin", pins: ["2580"], input: "newer")
        #expect(weaker.status == 2, "\(weaker)")
        #expect(try await machine.run("vault", "show", "pin", pins: ["2580"]).output == "new")
    }

    @Test func `a policy without biometrics is refused, and nothing is stored`() async throws {
        let machine = try machine()
        let outcome = try await machine.run(
            "vault", "store", "app", "--policy", "pin", "--json", pins: ["2580"], input: "x")
        #expect(outcome.status == 2)
        #expect(try outcome.json()["error"]?["message"]?.string?.contains("--biometrics") == true)
        #expect(try await machine.run("vault", "status", "app", "--json").status == 6)
    }

    @Test func `a name that is not valid is not reported as a damaged vault`() async throws {
        let machine = try machine()
        for command in ["status", "reset"] {
            let outcome = try await machine.run("vault", command, "a\u{1}b", "--json")
            #expect(outcome.status == 2)
            #expect(
                try outcome.json()["error"]?["recovery"]?.string?.contains("1 to 64 bytes") == true)
        }
    }

    @Test func `a command for another kind of vault names the right command`() async throws {
        let machine = try machine()
        func recovery(_ command: String) async throws -> String? {
            let outcome = try await machine.run("vault", command, "app", "--json", pins: ["2580"])
            #expect(outcome.status == 1)
            return try outcome.json()["error"]?["recovery"]?.string
        }
        #expect(try await machine.run("vault", "store", "app", input: "x").status == 0)
        for command in ["lock", "unlock", "downgrade"] {
            let advice = try await recovery(command)
            #expect(advice?.contains("latchkey vault upgrade") == true)
        }
        #expect(try await machine.run("vault", "upgrade", "app", pins: ["2580"]).status == 0)
        let advice = try await recovery("upgrade")
        #expect(advice?.contains("latchkey vault downgrade") == true)
    }
}
