import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// The tool on a SoftHSM2 token, one process per command, on a machine without a TPM.
@Suite(.requires(program: "softhsm2-util"), .timeLimit(.minutes(15)))
struct TokenCommandTests {
    private func createKey(_ machine: Machine, policy: String = "pin", pin: String = "123456")
        async throws -> String
    {
        let outcome = try await machine.run(
            "key", "create", "--policy", policy, "--json", pins: [pin])
        #expect(outcome.status == 0, "\(outcome.errors)")
        return try #require(outcome.json()["id"]?.string)
    }

    @Test func `a key's JSON has the fields of the contract`() async throws {
        let (machine, token) = try await Machine.withToken()
        let created = try await machine.run(
            "key", "create", "--label", "mine", "--json", pins: ["123456"]
        ).json()
        #expect(created["policy"] == "pin")
        #expect(created["assurance"] == "simulated(softhsm)")
        #expect(created["enforcedPresence"] == "pin")
        #expect(created["backend"] == "pkcs11")
        #expect(created["pinProtection"] == .null)
        let id = try #require(created["id"]?.string)
        let shown = try await machine.run("key", "show", id).output
        #expect(
            shown.contains(
                "PIN guard:  none: a software token may accept any number of wrong PINs"),
            "\(shown)")
        #expect(
            try await machine.run("key", "show", String(id.prefix(6)), "--json").json() == created)
        #expect(
            try await machine.run("key", "list", "--json").json() == [
                "keys": .array([.object(created)])
            ])
        withExtendedLifetime(token) {}
    }

    @Test(.requires(program: "openssl")) func `signatures and requests verify with openssl`()
        async throws
    {
        let (machine, token) = try await Machine.withToken()
        let id = try await createKey(machine)
        let paths = ["message", "signature", "public.pem", "request.pem"].map(
            machine.directory.path(of:))
        try Data("what is signed".utf8).write(to: URL(filePath: paths[0]))
        let signed = try await machine.run(
            "key", "sign", id, paths[0], "--format", "der", "--output", paths[1], pins: ["123456"])
        #expect((signed.status, signed.output) == (0, ""), "\(signed.errors)")
        let pem = try await machine.run("key", "export", id, "--format", "pem").output
        try Data(pem.utf8).write(to: URL(filePath: paths[2]))
        let verdict = try await program(
            "openssl", ["dgst", "-sha256", "-verify", paths[2], "-signature", paths[1], paths[0]])
        #expect(verdict.contains("Verified OK"))
        let request = try await machine.run(
            "key", "csr", id, "--subject", "CN=Ann,O=Example", pins: ["123456"])
        #expect(request.status == 0, "\(request.errors)")
        try Data(request.output.utf8).write(to: URL(filePath: paths[3]))
        #expect(
            try await program("openssl", ["req", "-in", paths[3], "-verify", "-noout", "-pubkey"])
                == pem)
        withExtendedLifetime(token) {}
    }

    @Test func `operations of TPM keys only are unsupported`() async throws {
        let (machine, token) = try await Machine.withToken()
        let id = try await createKey(machine, policy: "none")
        let wrapped = try await machine.run("key", "export", id, "--format", "tss2", "--json")
        #expect(wrapped.status == 1)
        #expect(try wrapped.json()["error"]?["code"] == "unsupported")
        let attested = try await machine.run(
            "key", "attest", id, "--challenge", "MDEyMzQ1Njc4OWFiY2RlZg", "--json")
        #expect(attested.status == 1)
        #expect(try attested.json()["error"]?["code"] == "unsupported")
        withExtendedLifetime(token) {}
    }

    @Test func `after a change of the token's PIN its keys have the new PIN`() async throws {
        let (machine, token) = try await Machine.withToken()
        let id = try await createKey(machine)
        let changed = try await machine.run(
            "pin", "change", "--json", pins: ["123456", "neue Losung"])
        #expect(try changed.json()["changed"] == 1, "\(changed.errors)")
        #expect(
            try await machine.run("key", "sign", id, "/dev/null", pins: ["neue Losung"]).status == 0
        )
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["123456"]).status == 4)
        #expect(try await machine.run("token", "pin", pins: ["neue Losung", "24680"]).status == 0)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["24680"]).status == 0)
        let status = try await machine.run("pin", "status", "--json")
        #expect(try status.json()["lockedOut"] == false)
        withExtendedLifetime(token) {}
    }

    @Test func `a deleted key is not found`() async throws {
        let (machine, token) = try await Machine.withToken()
        let id = try await createKey(machine, policy: "none")
        #expect(
            try await machine.run("key", "delete", String(id.prefix(8)), "--yes", "--json").status
                == 2)
        #expect(
            try await machine.run("key", "delete", id, "--yes", "--json").json() == [
                "id": .string(id), "deleted": true,
            ])
        #expect(try await machine.run("key", "sign", id, "/dev/null").status == 6)
        withExtendedLifetime(token) {}
    }

    @Test func `deleting a PIN-protected key requires the PIN, and --forget does not`() async throws
    {
        let (machine, token) = try await Machine.withToken()
        let ids = [try await createKey(machine), try await createKey(machine)]
        #expect(
            try await machine.run("key", "delete", ids[0], "--yes", pins: ["654321"]).status == 4)
        #expect(try await machine.run("key", "show", ids[0]).status == 0)
        #expect(
            try await machine.run("key", "delete", ids[0], "--yes", pins: ["123456"]).status == 0)
        let forgotten = try await machine.run(
            "key", "delete", ids[1], "--yes", "--forget", "--json", extra: ["LATCHKEY_TOKEN": ""])
        #expect(try forgotten.json() == ["id": .string(ids[1]), "deleted": false])
        #expect(try await machine.run("key", "list", "--json").json() == ["keys": .array([])])
        let left = try await program(
            "pkcs11-tool",
            [
                "--module", token.modulePath, "--token-label", token.label, "--login", "--pin",
                token.userPIN,
                "--list-objects", "--type", "privkey",
            ], environment: token.environment)
        #expect(left.components(separatedBy: "Private Key Object").count == 2, "\(left)")
    }

    @Test func `a token key is not used with the TPM, nor a TPM key with the token`() async throws {
        let (machine, token) = try await Machine.withToken()
        let id = try await createKey(machine, policy: "none")
        let outcome = try await machine.run(
            "key", "sign", id, "/dev/null", "--json", extra: ["LATCHKEY_TOKEN": ""])
        #expect(outcome.status == 8)
        #expect(try outcome.json()["error"]?["code"] == "wrongDevice")
        #expect(try outcome.json()["error"]?["recovery"]?.string?.contains("--token") == true)
        // Commands that do not use the hardware work.
        #expect(try await machine.run("key", "show", id, extra: ["LATCHKEY_TOKEN": ""]).status == 0)
        withExtendedLifetime(token) {}
    }

    @Test func `an existing key on the token is adopted by its URI`() async throws {
        let (machine, token) = try await Machine.withToken()
        try await program(
            "pkcs11-tool",
            [
                "--module", token.modulePath, "--token-label", token.label, "--login", "--pin",
                token.userPIN,
                "--keypairgen", "--key-type", "EC:prime256v1", "--id", "4242", "--label", "theirs",
                "--usage-sign",
            ], environment: token.environment)
        let uri = token.uri.replacing("?", with: ";id=%42%42?")
        let adopted = try await machine.run(
            "--token", uri, "key", "create", "--json", pins: ["123456"])
        #expect(adopted.status == 0, "\(adopted.errors)")
        let id = try #require(adopted.json()["id"]?.string)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["123456"]).status == 0)
    }

    @Test func `another token ends with 8, no token with 7, two matches with 10`() async throws {
        let (machine, token) = try await Machine.withToken()
        let id = try await createKey(machine)
        let other = try await SoftwareToken(label: "Other", placement: .ownDirectory)
        let wrong = try await machine.run(
            "key", "sign", id, "/dev/null", "--json",
            extra: other.environment.merging(["LATCHKEY_TOKEN": other.uri]) { $1 })
        #expect(wrong.status == 8, "\(wrong.errors)")
        #expect(try wrong.json()["error"]?["code"] == "wrongDevice")
        let gone = try await machine.run(
            "key", "sign", id, "/dev/null", "--json", extra: other.environment)
        #expect(gone.status == 7, "\(gone.errors)")
        let module = try await machine.run(
            "key", "sign", id, "/dev/null", "--json",
            extra: ["LATCHKEY_TOKEN": "pkcs11:token=x?module-path=/nonexistent.so"])
        #expect(module.status == 7, "\(module.errors)")
        try await program(
            "softhsm2-util",
            [
                "--init-token", "--free", "--label", "Latchkey", "--pin", "123456", "--so-pin",
                "12345678",
            ],
            environment: token.environment)
        // The stored serial number chooses the token of a stored key.
        let both = ["LATCHKEY_TOKEN": "pkcs11:token=Latchkey?module-path=\(token.modulePath)"]
        let chosen = try await machine.run(
            "key", "sign", id, "/dev/null", pins: [token.userPIN], extra: both)
        #expect(chosen.status == 0, "\(chosen.errors)")
        let ambiguous = try await machine.run("key", "create", "--json", extra: both)
        #expect(ambiguous.status == 10, "\(ambiguous.errors)")
    }

    @Test func `token list shows a URI that --token accepts`() async throws {
        let (machine, token) = try await Machine.withToken(label: "Läbel; with=signs")
        // Also if the configured URI names another token.
        let wrong = "pkcs11:token=Absent?module-path=\(token.modulePath)"
        let listed = try await machine.run("--token", wrong, "token", "list", "--json").json()
        let tokens = try #require(listed["tokens"]?.array)
        // SoftHSM2 always has a slot with a token that is not initialized.
        #expect(tokens.count == 2)
        let found = try #require(tokens.first { $0["label"] == .string(token.label) })
        #expect(found["serial"] == .string(token.serial))
        #expect(found["simulator"] == "softhsm")
        #expect(found["initialized"] == true)
        #expect(found["modulePath"]?.string?.hasSuffix("libsofthsm2.so") == true)
        let uri = try #require(found["uri"]?.string)
        let key = try await machine.run(
            "--token", uri, "key", "create", "--policy", "none", "--json")
        #expect(key.status == 0, "\(key.errors)")
        let text = try await machine.run("token", "list").output
        #expect(text.contains("it does not protect keys") && text.contains(uri))
    }

    @Test func `a named module that cannot be used is an error of token list`() async throws {
        let (machine, token) = try await Machine.withToken()
        let uri = "pkcs11:?module-path=/nonexistent.so"
        let listed = try await machine.run("--token", uri, "token", "list", "--json")
        #expect(listed.status == 7)
        #expect(try listed.json()["error"]?["code"] == "unavailable")
        #expect(listed.errors.contains("/nonexistent.so"), "\(listed.errors)")
        withExtendedLifetime(token) {}
    }

    @Test func `a token is initialized, and its PINs are changed and unblocked`() async throws {
        let (machine, token) = try await Machine.withToken()
        let blank = "pkcs11:manufacturer=SoftHSM%20project?module-path=\(token.modulePath)"
        let made = try await machine.run(
            "--token", blank, "token", "init", "--label", "Second", "--json",
            pins: ["officer 1", "user 1"])
        #expect(made.status == 0, "\(made.errors)")
        #expect(try made.json()["label"] == "Second")
        let uri = "pkcs11:token=Second?module-path=\(token.modulePath)"
        func run(_ arguments: [String], _ pins: String...) async throws -> Int32? {
            try await machine.run(["--token", uri] + arguments, pins: pins).status
        }
        #expect(try await run(["key", "create"], "user 1") == 0)
        #expect(try await run(["token", "pin"], "wrong", "user 2") == 4)
        #expect(try await run(["token", "pin"], "user 1", "user 2") == 0)
        #expect(try await run(["token", "pin", "--so"], "officer 1", "officer 2") == 0)
        #expect(try await run(["token", "pin", "--init"], "officer 1", "user 3") == 4)
        #expect(try await run(["token", "pin", "--unblock"], "officer 2", "user 3") == 0)
        #expect(try await run(["key", "create"], "user 3") == 0)
        #expect(try await run(["token", "init", "--label", "Third"], "officer 2", "user 4") == 10)
        #expect(
            try await run(["token", "init", "--label", "Third", "--erase"], "officer 2", "user 4")
                == 0)
        #expect(try await run(["key", "create"], "user 4") == 7)
    }

    @Test func `a vault on a token is bound to it`() async throws {
        let (machine, token) = try await Machine.withToken()
        let stored = try await machine.run("vault", "store", "app", pins: [], input: "secret")
        #expect(
            stored.output.contains("the TPM or token opens it without a PIN"), "\(stored.errors)")
        #expect(try await machine.run("vault", "list").output == "app  bound to the TPM or token\n")
        withExtendedLifetime(token) {}
    }

    @Test func `doctor accepts a software token and creates no store`() async throws {
        let (machine, token) = try await Machine.withToken()
        let outcome = try await machine.run("doctor", "--json")
        #expect(outcome.status == 0, "\(outcome.output)")
        let checks = try #require(outcome.json()["checks"]?.array)
        #expect(
            checks.compactMap { $0["name"]?.string } == [
                "settings", "store", "module", "token", "token-pin", "token-key", "revocation",
                "policy", "pin-source", "passkeys", "sign-in", "server",
            ])
        #expect(
            checks.contains { $0["finding"]?.string?.contains("a simulator (softhsm)") == true })
        #expect(!FileManager.default.fileExists(atPath: machine.databasePath))
        withExtendedLifetime(token) {}
    }
}
