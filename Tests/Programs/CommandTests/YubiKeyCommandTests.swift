import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTesting
import Subprocess
import SystemPackage
import Testing
import VirtualSmartCard

/// The tool on a virtual YubiKey, through Yubico's and OpenSC's modules and a real pcscd.
@Suite(
    .virtualYubiKey,
    .enabled(if: FileManager.default.fileExists(atPath: yubicoModule), "needs ykcs11"),
    .enabled(if: FileManager.default.fileExists(atPath: openSCModule), "needs opensc-pkcs11"),
    .timeLimit(.minutes(15)))
struct YubiKeyCommandTests {
    private let managementKey = "010203040506070801020304050607080102030405060708"

    private func machine(_ module: String = yubicoModule, naming key: String = "") throws -> Machine
    {
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment["LATCHKEY_TOKEN"] = "pkcs11:\(key)?module-path=\(module)"
        return machine
    }

    private func check(_ name: String, _ machine: Machine) async throws -> JSON? {
        try await machine.run("doctor", "--json").json()["checks"]?.array?.first {
            $0["name"] == .string(name)
        }
    }

    @Test func `a key is created with the management key, signs with the PIN, and is attested`()
        async throws
    {
        let machine = try machine()
        // The key that signs attestations can't be adopted.
        let listed = try await machine.run("token", "keys", "--json").json()["keys"]?.array
        #expect(listed?.count == 1 && listed?.first?["uri"] == .null, "\(listed ?? [])")
        let made = try await machine.run(
            "key", "create", "--json", pins: [managementKey, "123456"])
        #expect(made.status == 0, "\(made.errors)")
        #expect(try made.json()["assurance"] == "hardware(token)")
        let id = try #require(made.json()["id"]?.string)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["123456"]).status == 0)
        let attested = try await machine.run(
            "key", "attest", id, "--challenge", "MDEyMzQ1Njc4OWFiY2RlZg", "--json")
        #expect(try attested.json()["format"] == "piv", "\(attested.errors)")
        let deleted = try await machine.run(
            "key", "delete", id, "--yes", "--json", pins: ["123456"])
        #expect(try deleted.json()["error"]?["code"] == "unsupported")
        #expect(try await machine.run("key", "show", id).status == 0)
        #expect(try await machine.run("key", "delete", id, "--yes", "--forget").status == 0)
    }

    /// A command takes about 30 ms on a real card, and the start of OpenSC most of them.
    @Test(.requires(program: "pkcs11-tool"))
    func `OpenSC is started once for each command, as by pkcs11-tool`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication)
        let machine = try machine(openSCModule, naming: "id=%01")
        let made = try await machine.run("key", "create", "--json", pins: ["123456"])
        let id = try #require(made.json()["id"]?.string, "\(made)")
        let digest = machine.directory.path(of: "digest")
        try Data(repeating: 7, count: 32).write(to: URL(filePath: digest))
        func count(_ body: () async throws -> Void) async throws -> Int {
            let before = yubiKey.card.statistics.commands
            try await body()
            return yubiKey.card.statistics.commands - before
        }
        let start = try await count { try await program("pkcs11-tool", tool("--list-slots")) }
        let list = try await count { try await machine.require("token", "list") }
        #expect(list < 2 * start, "\(list) commands, \(start) of pkcs11-tool")
        let sign = [
            "--login", "--pin", "123456", "--sign", "--mechanism", "ECDSA", "--id", "01",
            "--input-file", digest, "--output-file", "\(digest).signature",
        ]
        let other = try await count { try await program("pkcs11-tool", tool(sign)) }
        let own = try await count {
            try await machine.require("key", "sign", id, "/dev/null", pins: ["123456"])
        }
        #expect(own < other + start, "\(own) commands, \(other) of pkcs11-tool")
    }

    private func tool(_ arguments: String...) -> [String] { tool(arguments) }

    private func tool(_ arguments: [String]) -> [String] { ["--module", openSCModule] + arguments }

    @Test func `wrong PINs end with 4, then with 5, and the PUK unblocks`() async throws {
        let machine = try machine()
        let made = try await machine.run(
            "key", "create", "--json", pins: [managementKey, "123456"]
        ).json()
        let id = try #require(made["id"]?.string)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["111111"]).status == 4)
        #expect(try await check("token-pin", machine)?["state"] == "warning")
        let last = try await machine.run("key", "sign", id, "/dev/null", "--json", pins: ["111111"])
        #expect(last.status == 4)
        #expect(try last.json()["error"]?["attemptsLeft"] == 1)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["111111"]).status == 5)
        // No more prompts.
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: []).status == 5)
        #expect(try await machine.run("doctor").status == 5)
        // Before the server is asked for its login page.
        let server = ["--endpoint", "http://127.0.0.1:9", "--client-id", "app"]
        let locker = try await machine.run(["locker", "start"] + server, pins: [])
        #expect(locker.status == 5, "\(locker)")
        let login = try await machine.run(["login"] + server, pins: [])
        #expect(
            login.errors.contains("do not work now: the token's PIN is locked after too many"),
            "\(login)")
        let wrong = try await machine.run(
            "token", "pin", "--unblock", pins: ["00000000", "345678"])
        #expect(wrong.status == 4 && wrong.errors.contains("the PUK is wrong"), "\(wrong.errors)")
        #expect(
            try await machine.run("token", "pin", "--unblock", pins: ["12345678", "345678"]).status
                == 0)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["345678"]).status == 0)
        #expect(try await machine.run("token", "pin", pins: ["345678", "456789"]).status == 0)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["456789"]).status == 0)
    }

    @Test func `for a missing card, GnuPG's daemon is named as a possible cause`() async throws {
        var machine = try machine()
        machine.environment["LATCHKEY_TOKEN"] = "pkcs11:token=Other?module-path=\(yubicoModule)"
        let daemon = machine.directory.path(of: "scdaemon")
        try FileManager.default.copyItem(atPath: "/bin/sleep", toPath: daemon)
        let check = try await Subprocess.run(
            .path(FilePath(daemon)), arguments: ["60"], input: .none, output: .discarded,
            error: .discarded
        ) { execution in
            let report = try await machine.run("doctor", "--json").json()["checks"]?.array ?? []
            await execution.teardown(using: [])
            return report.first { $0["state"] == "problem" }
        }.closureResult
        #expect(
            check?["finding"]?.string?.contains("there is only") == true,
            "\(String(describing: check))")
        #expect(check?["advice"]?.string?.contains("gpgconf --kill scdaemon") == true)
        #expect(check?["advice"]?.string?.contains("disable-ccid and pcsc-shared") == true)
    }

    @Test func `versions have the manufacturer's format`() async throws {
        let machine = try machine()
        #expect(
            try await check("module", machine)?["finding"]?.string?.hasSuffix(" 2.2.0.") == true)
        let token = try await machine.run("token", "list", "--json").json()["tokens"]?.array?.first
        #expect(token?["firmware"] == "5.4.3")
    }

    @Test func `OpenSC's limits are reported before any prompt, with a command that works`()
        async throws
    {
        let machine = try machine(openSCModule)
        func refusal(_ arguments: String..., naming command: String) async throws {
            let refused = try await machine.run(["token"] + arguments + ["--json"], pins: [])
            #expect(refused.status == 1, "\(arguments): \(refused.errors)")
            let error = try refused.json()["error"]
            #expect(error?["code"] == "unsupported", "\(arguments)")
            #expect(
                error?["recovery"]?.string?.contains(command) == true,
                "\(arguments): \(refused.errors)")
        }
        try await refusal("pin", "--init", naming: "pkcs15-tool --unblock-pin")
        try await refusal("pin", "--unblock", naming: "pkcs15-tool --unblock-pin")
        try await refusal("pin", "--so", naming: "pkcs15-tool --unblock-pin")
        try await refusal("init", "--label", "x", "--erase", naming: "ykman piv reset")
    }

    @Test func `the management key changes`() async throws {
        let machine = try machine()
        let other = "112233445566778811223344556677881122334455667788"
        for poor in ["123456", String(other.dropLast()), String(other.dropLast(2)) + "zz"] {
            let refused = try await machine.run(
                "token", "pin", "--so", "--json", pins: [managementKey, poor])
            #expect(try refused.json()["error"]?["code"] == "invalidInput", "\(poor)")
        }
        #expect(
            try await machine.run("token", "pin", "--so", pins: [managementKey, other]).status == 0)
        #expect(
            try await machine.run("key", "create", pins: [managementKey, "123456"]).status == 4)
        #expect(try await machine.run("key", "create", pins: [other, "123456"]).status == 0)
    }

    @Test func `token init refers to Yubico's program for a reset`() async throws {
        let outcome = try await machine().run("token", "init", "--label", "x", "--erase", "--json")
        #expect(try outcome.json()["error"]?["code"] == "unsupported")
    }

    @Test func `OpenSC adopts a key of ykcs11, and doctor reports that OpenSC cannot create keys`()
        async throws
    {
        let made = try await machine().run("key", "create", pins: [managementKey, "123456"])
        #expect(made.status == 0, "\(made.errors)")
        // Slot 9c, the first slot that requires the PIN for each use.
        let other = try machine(openSCModule, naming: "id=%02")
        let adopted = try await other.run("key", "create", "--json", pins: ["123456"])
        #expect(adopted.status == 0, "\(adopted.errors)")
        let id = try #require(adopted.json()["id"]?.string)
        #expect(try adopted.json()["enforcedPresence"] == "unknown")
        #expect(try await other.run("key", "show", id).output.contains("may work without the PIN"))
        #expect(try await other.run("key", "sign", id, "/dev/null", pins: ["123456"]).status == 0)
        #expect(try await other.run("doctor").status == 0)
        #expect(try await machine(openSCModule).run("doctor").status == 1)
        #expect(try await check("token-key", machine(openSCModule))?["state"] == "problem")
        let unblocking = try await other.run("token", "pin", "--unblock", "--json")
        #expect(
            try unblocking.json()["error"]?["recovery"]?.string?.contains("pkcs15-tool") == true)
    }
}

private let yubicoModule = "/usr/lib/x86_64-linux-gnu/libykcs11.so"
private let openSCModule = "/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so"
