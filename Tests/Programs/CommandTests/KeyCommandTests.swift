import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// `latchkey key` and `latchkey pin` on a real software TPM, one process per command.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct KeyCommandTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    private func createKey(_ machine: Machine, policy: String = "pin", pin: String = "2580")
        async throws -> String
    {
        let outcome = try await machine.run(
            "key", "create", "--policy", policy, "--json", pins: [pin])
        #expect(outcome.status == 0, "\(outcome.errors)")
        return try #require(outcome.json()["id"]?.string)
    }

    private func publicKey(_ machine: Machine, _ id: String) async throws -> PublicKey {
        let text = try await machine.run("key", "export", id, "--format", "jwk", "--json").output
        return try JSONDecoder().decode(JWK.self, from: Data(text.utf8)).publicKey()
    }

    @Test func `a key's JSON has the fields of the contract`() async throws {
        let machine = try machine()
        let outcome = try await machine.run(
            "key", "create", "--label", "mine", "--json", pins: ["2580"])
        let created = try outcome.json()
        let expected: Set = [
            "assurance", "backend", "createdAt", "enforcedPresence", "id", "isAttestable",
            "isRevocable", "label",
            "pinProtection", "policy", "publicKeyJWK", "uri",
        ]
        #expect(Set(created.keys) == expected)
        #expect(created["policy"] == "pin")
        #expect(created["assurance"] == "simulated(swtpm)")
        #expect(created["backend"] == "tpm")
        #expect(created["pinProtection"] == "device")
        #expect(created["label"] == "mine")
        #expect(created["publicKeyJWK"]?["crv"] == "P-256")
        let id = try #require(created["id"]?.string)
        #expect(try await machine.run("key", "show", id, "--json").json() == created)
        #expect(
            try await machine.run("key", "list", "--json").json() == [
                "keys": .array([.object(created)])
            ])
    }

    @Test func `a signature over a file and over its digest verify`() async throws {
        let machine = try machine()
        let id = try await createKey(machine)
        let file = machine.directory.path(of: "message")
        try Data("what is signed".utf8).write(to: URL(filePath: file))
        let digest = MessageDigest(sha256: Array("what is signed".utf8))
        let hex = digest.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let key = try await publicKey(machine, id)
        for what in [[file], ["--digest", hex]] {
            let outcome = try await machine.run(
                ["key", "sign", id, "--json"] + what, pins: ["2580"])
            let bytes = try #require(outcome.json()["signature"]?.string.flatMap(Base64URL.decode))
            #expect(
                key.isValid(try #require(ECDSASignature(rawRepresentation: bytes)), for: digest))
        }
    }

    @Test(.requires(program: "openssl"))
    func `openssl verifies the der form with the exported pem`() async throws {
        let machine = try machine()
        let id = try await createKey(machine, policy: "none")
        let paths = ["message", "signature", "public.pem"].map(machine.directory.path(of:))
        try Data("what is signed".utf8).write(to: URL(filePath: paths[0]))
        let signature = try await machine.run("key", "sign", id, paths[0], "--format", "der").output
        try #require(Base64URL.decode(signature.dropLast())).write(to: URL(filePath: paths[1]))
        let pem = try await machine.run("key", "export", id, "--format", "pem").output
        try Data(pem.utf8).write(to: URL(filePath: paths[2]))
        let verdict = try await program(
            "openssl", ["dgst", "-sha256", "-verify", paths[2], "-signature", paths[1], paths[0]])
        #expect(verdict.contains("Verified OK"))
    }

    @Test(.requires(program: "openssl"))
    func `openssl's tpm2 provider reads the exported TSS2 key`() async throws {
        let machine = try machine()
        let id = try await createKey(machine, policy: "none")
        let path = machine.directory.path(of: "key.pem")
        let wrapped = try await machine.run("key", "export", id, "--format", "tss2", "--json")
            .output
        #expect(wrapped.hasPrefix("-----BEGIN TSS2 PRIVATE KEY-----\n"))
        try Data(wrapped.utf8).write(to: URL(filePath: path))
        let read = try await program(
            "openssl",
            ["pkey", "-provider", "tpm2", "-provider", "default", "-in", path, "-pubout"],
            environment: ["TPM2OPENSSL_TCTI": SoftwareTPM.current.tcti])
        #expect(read == (try await machine.run("key", "export", id, "--format", "pem").output))
    }

    @Test(.requires(program: "tpm2_print"))
    func `tpm2_print shows the expected attributes of the exported key`() async throws {
        let machine = try machine()
        let path = machine.directory.path(of: "key.pem")
        for (policy, attributes) in [
            ("none", "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|sign"),
            ("pin", "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|sign"),
        ] {
            let id = try await createKey(machine, policy: policy)
            let wrapped = try await machine.run("key", "export", id, "--format", "tss2").output
            try Data(wrapped.utf8).write(to: URL(filePath: path))
            let printed = try await program("tpm2_print", ["-t", "TSSPRIVKEY_OBJ", path])
            #expect(printed.contains("value: \(attributes)\n"))
            #expect(printed.contains("NIST p256"))
            #expect(printed.contains("ecdsa"))
        }
    }

    @Test func `an attestation has all its parts`() async throws {
        let machine = try machine()
        let id = try await createKey(machine, policy: "none")
        let outcome = try await machine.run(
            "key", "attest", id, "--challenge", "MDEyMzQ1Njc4OWFiY2RlZg", "--json")
        let attestation = try outcome.json()
        #expect(attestation["format"] == "tpm")
        let statement = try #require(attestation["statement"]?.string.flatMap(Base64URL.decode))
        #expect(statement.firstRange(of: Data("0123456789abcdef".utf8)) != nil)
        for part in ["signature", "publicArea", "attestationKey"] {
            #expect(attestation[part]?.string.flatMap(Base64URL.decode)?.isEmpty == false)
        }
    }

    @Test func `a deleted key is not found`() async throws {
        let machine = try machine()
        let id = try await createKey(machine, policy: "none")
        #expect(
            try await machine.run("key", "delete", id, "--yes", "--json").json() == [
                "id": .string(id), "deleted": true,
            ])
        #expect(try await machine.run("key", "delete", id, "--yes").status == 6)
        #expect(try await machine.run("key", "sign", id, "/dev/null").status == 6)
    }

    @Test func `a container does not show the keys of another one`() async throws {
        let machine = try machine()
        let id = try await createKey(machine, policy: "none")
        let other = try await machine.run("--container", "other", "key", "list", "--json")
        #expect(try other.json() == ["keys": .array([])])
        #expect(try await machine.run("--container", "other", "key", "show", id).status == 6)
        #expect(
            try await machine.run("--container", "other", "key", "delete", id, "--yes").status == 6)
        #expect(try await machine.run("key", "show", id).status == 0)
    }

    @Test func `after a PIN change the new PIN works and the old PIN is wrong`() async throws {
        let machine = try machine()
        let id = try await createKey(machine)
        let change = try await machine.run(
            "pin", "change", "--json", pins: ["2580", "neue Losung"])
        #expect(try change.json()["changed"] == 1)
        #expect(
            try await machine.run("key", "sign", id, "/dev/null", pins: ["neue Losung"]).status == 0
        )
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["2580"]).status == 4)
    }

    @Test func `the PINs of keys with different PINs are changed one at a time`() async throws {
        let machine = try machine()
        let first = try await createKey(machine)
        let second = try await createKey(machine, pin: "1357")
        let vault = try await machine.run(
            ["vault", "store", "v", "--biometrics", "--policy", "pin"], pins: ["8642"],
            input: "secret")
        #expect(vault.status == 0, "\(vault.errors)")
        let all = try await machine.run("pin", "change", pins: ["2580", "new one"])
        #expect(all.status == 4)
        #expect(all.errors.contains("Nothing was changed. Change the PINs one at a time"))
        #expect(all.errors.contains("latchkey pin change KEY"))
        for (arguments, pins) in [
            ([first], ["2580", "first"]), ([second], ["1357", "second"]),
            (["--secrets"], ["8642", "third"]),
        ] {
            let change = try await machine.run(["pin", "change", "--json"] + arguments, pins: pins)
            #expect(try change.json()["changed"] == 1, "\(change.errors)")
        }
        #expect(
            try await machine.run("key", "sign", first, "/dev/null", pins: ["first"]).status == 0)
        #expect(
            try await machine.run("key", "sign", second, "/dev/null", pins: ["second"]).status == 0)
        #expect(try await machine.run("vault", "show", "v", pins: ["third"]).output == "secret")
        #expect(try await machine.run("pin", "change", first, "--secrets").status == 2)
    }

    @Test func `pin change names the keys in its prompt, result and errors`() async throws {
        let machine = try machine()
        func make(_ arguments: String...) async throws {
            let outcome = try await machine.run(
                ["key", "create", "--label"] + arguments, pins: ["2580"])
            #expect(outcome.status == 0, "\(outcome.errors)")
        }
        try await make("open", "--policy", "none")
        try await make("mine")
        let open = try await machine.run("pin", "change", "open", pins: [])
        #expect(
            open.status == 6
                && open.errors.contains("the key ‘open’ has no PIN (its policy is ‘none’)"))
        let secrets = try await machine.run("pin", "change", "--secrets", pins: [])
        #expect(secrets.status == 6 && secrets.errors.contains("no vault or credential with a PIN"))
        let wrong = try await machine.run("pin", "change", "mine", pins: ["0000", "1357"])
        #expect(
            wrong.errors.contains("Could not change the PIN of a key: the PIN is wrong"))
        for (arguments, text) in [(["mine"], "the key ‘mine’"), ([], "one key")] {
            let change = try await machine.run(
                ["pin", "change"] + arguments, pins: ["2580", "2580"])
            #expect(change.output == "The new PIN is set for \(text) of the container ‘default’.\n")
        }
        #expect(
            try await machine.run(
                ["vault", "store", "v", "--biometrics", "--policy", "pin"], pins: ["2580"],
                input: "x"
            )
            .status == 0)
        let all = try await machine.run("pin", "change", pins: ["2580", "2580"])
        #expect(
            all.output.contains("for one key and the vaults and credentials of"),
            "\(all.output) \(all.errors)")
    }

    @Test func `a descriptor for output, or with the data to sign, is not a source of PINs`()
        async throws
    {
        let machine = try machine()
        let id = try await createKey(machine)
        let output = try await machine.run("key", "sign", id, "/dev/null", "--pin-source", "fd:2")
        #expect(output.status == 2)
        #expect(
            output.errors.contains(
                "descriptor 2, which is standard error, is open for writing only"))
        let both = try await machine.run(
            "key", "sign", id, "-", "--pin-source", "fd:0", input: "data\n2580\n")
        #expect(both.status == 7)
        #expect(
            both.errors.contains(
                "standard input contains the data and cannot be the source of PINs"),
            "\(both.errors)")
    }

    /// Other descriptors are the tool's own files.
    @Test func `a descriptor that was not open at the start is not a source of PINs`() async throws
    {
        let machine = try machine()
        for number in 6...12 {
            let outcome = try await machine.run("key", "create", "--pin-source", "fd:\(number)")
            #expect(outcome.status == 2)
            #expect(
                outcome.errors.contains(
                    "descriptor \(number) was not open when the program started"),
                "\(outcome.errors)")
        }
    }

    @Test func `an unwritable output file is reported before the prompt`() async throws {
        let machine = try machine()
        let id = try await createKey(machine)
        for path in ["/nonexistent/signature", "-"] {
            let outcome = try await machine.run("key", "sign", id, "/dev/null", "--output", path)
            #expect(outcome.status == 2)
            #expect(!outcome.errors.contains("Domain"), "\(outcome.errors)")
        }
    }

    @Test
    func `a copy of a revocable key does not sign with an old PIN or after the key was deleted`()
        async throws
    {
        let machine = try machine()
        #expect(
            try await machine.run("key", "show", createKey(machine), "--json").json()["isRevocable"]
                == false)
        let created = try await machine.run(
            "key", "create", "--revocable", "--json", pins: ["2580"]
        ).json()
        #expect(created["isRevocable"] == true)
        let id = try #require(created["id"]?.string)
        let copy = try machine.copy()
        func sign(_ pin: String) async throws -> JSON? {
            let outcome = try await copy.run("key", "sign", id, "/dev/null", "--json", pins: [pin])
            return outcome.status == 0 ? nil : try outcome.json()["error"]
        }
        #expect(try await sign("2580") == nil, "the control")
        #expect(try await machine.run("pin", "change", pins: ["2580", "1357"]).status == 0)
        let old = try await sign("2580")
        #expect(old?["code"] == "wrongProof" && old?["underlying"]?["code"]?.number == 0x98E)
        #expect(try await sign("1357") == nil)
        #expect(try await machine.run("key", "delete", id, "--yes").status == 0)
        let dead = try await sign("1357")
        #expect(dead?["code"] == "invalidated" && dead?["underlying"]?["code"]?.number == 0x18B)
    }

    @Test func `deleting a revocable key with --forget revokes it and reports it as deleted`()
        async throws
    {
        let machine = try machine()
        let created = try await machine.run(
            "key", "create", "--revocable", "--json", pins: ["2580"]
        ).json()
        let id = try #require(created["id"]?.string)
        let copy = try machine.copy()
        let forgotten = try await machine.run("key", "delete", id, "--yes", "--forget", "--json")
        #expect(try forgotten.json() == ["id": .string(id), "deleted": true])
        #expect(forgotten.errors.isEmpty)
        let dead = try await copy.run("key", "sign", id, "/dev/null", "--json", pins: ["2580"])
        #expect(try dead.json()["error"]?["code"] == "invalidated")
    }

    @Test func `deleting a revocable key with --forget works without its TPM`() async throws {
        let machine = try machine()
        let created = try await machine.run(
            "key", "create", "--revocable", "--json", pins: ["2580"]
        ).json()
        let id = try #require(created["id"]?.string)
        let off = ["LATCHKEY_TCTI": "swtpm:path=/nonexistent"]
        let forgotten = try await machine.run(
            "key", "delete", id, "--yes", "--forget", "--json", extra: off)
        #expect(forgotten.status == 0, "\(forgotten.errors)")
        #expect(
            try forgotten.json() == [
                "id": .string(id), "deleted": false, "revocationPending": true,
            ])
        #expect(forgotten.errors.contains("has not revoked"))
    }

    @Test func `wrong PINs end with 4 and the attempts left, then with 5 and the time`()
        async throws
    {
        let machine = try machine()
        let id = try await createKey(machine)
        for left in [2, 1, 0] {
            let outcome = try await machine.run(
                "key", "sign", id, "/dev/null", "--json", pins: ["0000"])
            #expect(outcome.status == 4)
            let error = try #require(outcome.json()["error"])
            #expect(error["code"] == "wrongProof")
            #expect(error["attemptsLeft"]?.number == Double(left))
            #expect(error["underlying"]?["code"]?.number == 0x98E)
        }
        // A new PIN is proven once, so nothing with a PIN of its own can be created during the
        // lockout; the error has its end.
        for arguments in [
            ["key", "create", "--revocable"], ["vault", "store", "app", "--biometrics"],
        ] {
            let refused = try await machine.run(
                arguments + ["--json"], pins: ["1357"], input: "secret")
            #expect(refused.status == 5)
            #expect(
                try refused.json()["error"]?["recovery"]?.string?.contains("ends by") == true,
                "\(refused.output)")
        }
        #expect(try await machine.run("doctor").output.contains("revocable keys cannot be created"))
        let locked = try await machine.run("key", "sign", id, "/dev/null", "--json", pins: ["2580"])
        #expect(locked.status == 5)
        let error = try #require(locked.json()["error"])
        #expect(error["code"] == "lockedOut")
        let until = try #require(error["lockedOutUntil"]?.string)
        #expect(try Date(until, strategy: .iso8601) > Date())
        let recovery = try #require(error["recovery"]?.string)
        #expect(recovery.contains(/by \d+-\d+-\d+ \d+:\d+ \(in 1[67] minutes\)/), "\(recovery)")
        let status = try await machine.run("pin", "status", "--json")
        #expect(status.status == 0)
        #expect(try status.json()["lockedOut"] == true)
        #expect(try await machine.run("doctor").status == 0)
    }

    @Test func `another TPM ends with 8 and changes nothing`() async throws {
        let machine = try machine()
        let id = try await createKey(machine)
        let row = try storedKey(machine, id)
        let other = try await SoftwareTPM()
        let outcome = try await machine.run(
            "key", "sign", id, "/dev/null", "--json", pins: ["2580"],
            extra: ["LATCHKEY_TCTI": other.tcti])
        #expect(outcome.status == 8)
        #expect(try outcome.json()["error"]?["code"] == "wrongDevice")
        // Without a terminal or pinentry, the refusal comes before the prompt that would fail.
        let unattended = try await machine.run(
            "key", "sign", id, "/dev/null",
            extra: ["LATCHKEY_TCTI": other.tcti, "LATCHKEY_PIN_SOURCE": "pinentry"])
        #expect(unattended.status == 8)
        #expect(unattended.errors.contains("belongs to another TPM"), "\(unattended.errors)")
        #expect(try storedKey(machine, id) == row)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["2580"]).status == 0)
        await other.cutPower()
    }

    @Test(arguments: ["truncated", "edited", "emptied"])
    func `a key with changed stored bytes ends with 8 and is not modified`(how: String) async throws
    {
        let machine = try machine()
        let id = try await createKey(machine)
        var key = try JSONDecoder().decode(
            HardwareKey.self, from: Data(try storedKey(machine, id).utf8))
        switch how {
        case "truncated": key = key.replacing(blob: key.blob.dropLast(9))
        case "edited":
            var blob = key.blob
            // In the wrapped private half: about 120 bytes of structure and public area come first.
            blob[blob.index(blob.startIndex, offsetBy: 200)] ^= 1
            key = key.replacing(blob: blob)
        default: key = key.replacing(blob: Data())
        }
        let text = String(decoding: try JSONEncoder().encode(key), as: UTF8.self)
        try store(machine, id, text)
        let outcome = try await machine.run(
            "key", "sign", id, "/dev/null", "--json", pins: ["2580"])
        #expect(outcome.status == 8, "\(outcome.errors)")
        #expect(try storedKey(machine, id) == text)
    }

    @Test func `doctor accepts a software TPM`() async throws {
        let outcome = try await machine().run("doctor", "--json")
        #expect(outcome.status == 0)
        let checks = try #require(outcome.json()["checks"]?.array)
        #expect(
            checks.compactMap { $0["name"]?.string } == [
                "settings", "store", "tpm", "srk", "lockout", "lockout-password", "revocation",
                "tokens", "finger", "attestation", "policy", "pin-source",
                "passkeys", "sign-in", "server",
            ])
        #expect(checks.allSatisfy { $0["state"] != "problem" })
    }
}
