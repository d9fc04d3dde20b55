import FoundationEssentials
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Subprocess
import Testing

/// Biometric login, one process per command, with a real server, a software TPM and a scripted
/// browser.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .requires(program: "tpm2_getcap"),
    .timeLimit(.minutes(15)))
struct LoginCommandTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    /// Configures the server and a scripted browser on `machine`.
    private func introduce(
        _ machine: Machine, to server: IdentityProcess, as user: Int = 0
    ) throws -> (machine: Machine, browser: ScriptedBrowser) {
        var machine = machine
        let browser = try ScriptedBrowser(user: server.users[user], in: machine.directory)
        machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
        machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
        machine.environment["BROWSER"] = browser.path
        return (machine, browser)
    }

    private func withServer(
        _ machine: Machine, port: String? = nil,
        _ body: (Machine, ScriptedBrowser, IdentityProcess) async throws -> Void
    ) async throws {
        let database = machine.directory.path(of: "identity.sqlite")
        try await IdentityProcess.withRunning(database: database, port: port) { server in
            let (machine, browser) = try introduce(machine, to: server)
            try await body(machine, browser, server)
        }
    }

    /// Logs in and enables; the PIN is 2580.
    ///
    /// - Returns: The key's id.
    private func enable(_ machine: Machine) async throws -> String {
        let login = try await machine.run("login", "--json")
        #expect(login.status == 0, "\(login.errors)")
        let enable = try await machine.run("enable", "--json", pins: ["2580"])
        #expect(enable.status == 0, "\(enable.errors)")
        return try #require(enable.json()["kid"]?.string)
    }

    @Test func `doctor checks that the server knows the client`() async throws {
        try await withServer(try machine()) { machine, _, server in
            func finding(_ arguments: String...) async throws -> (String?, String?) {
                let checks = try await machine.run(["doctor", "--json"] + arguments).json()[
                    "checks"]?.array
                let check = try #require(checks?.first { $0["name"] == "server" })
                return (check["state"]?.string, check["finding"]?.string)
            }
            let known = try await finding()
            #expect(known.0 == "ok", "\(known)")
            let unknown = try await finding("--client-id", "wrong")
            #expect(unknown.0 == "warning")
            #expect(unknown.1?.contains("does not know the client ‘wrong’") == true, "\(unknown)")
        }
    }

    @Test func `the PINs of the login and of a vault are changed one at a time`() async throws {
        try await withServer(try machine()) { machine, _, _ in
            let kid = try await enable(machine)
            let stored = try await machine.run(
                ["vault", "store", "v", "--biometrics", "--policy", "pin"], pins: ["1357"],
                input: "secret")
            #expect(stored.status == 0, "\(stored.errors)")
            for (name, pins) in [(kid, ["2580", "2581"]), ("--secrets", ["1357", "1358"])] {
                let changed = try await machine.run("pin", "change", name, pins: pins)
                #expect(changed.status == 0, "\(changed.errors)")
            }
            #expect(try await machine.run("authenticate", pins: ["2581"]).status == 0)
            #expect(try await machine.run("vault", "show", "v", pins: ["1358"]).output == "secret")
            #expect(try await machine.run("pin", "status", "--json").json()["attemptsLeft"] == 3)
        }
    }

    @Test func `log in, enable, restart everything, authenticate, disable`() async throws {
        let machine = try machine()
        let tpm = try SoftwareTPM.current
        var port = ""
        var (user, kid) = ("", "")
        try await withServer(machine) { machine, _, server in
            port = server.port
            let login = try await machine.run("login", "--json").json()
            user = try #require(login["userInfo"]?["sub"]?.string)
            #expect(login["userInfo"]?["preferred_username"] == "alice")
            let before = try await machine.run("status", "--json").json()
            #expect(
                before == [
                    "container": "default", "lastUserID": .string(user), "lastUserName": "alice",
                    "biometricEnabled": false,
                    "sessionState": "AUTHENTICATED", "kid": nil, "server": .string(server.endpoint),
                    "clientID": .string(server.clientID), "isConfiguredServer": true, "sshKeys": 0,
                ])
            #expect(try await machine.run("status").output.contains(user))
            let enable = try await machine.run("enable", "--json", pins: ["2580"]).json()
            #expect(
                Set(enable.keys) == [
                    "kid", "policy", "assurance", "enforcedPresence", "isRevocable",
                ])
            #expect(enable["isRevocable"] == true)
            #expect(enable["policy"] == "pin")
            #expect(enable["assurance"] == "simulated(swtpm)")
            kid = try #require(enable["kid"]?.string)
        }
        await tpm.cutPower()

        // Status works without the TPM and the server.
        let off = try await machine.run("status", "--json")
        #expect(off.status == 0)
        #expect(try off.json()["biometricEnabled"] == true)
        #expect(try off.json()["kid"] == .string(kid))

        try await tpm.start()
        try await withServer(machine, port: port) { machine, _, server in
            let back = try await machine.run("authenticate", "--json", pins: ["2580"])
            #expect(back.status == 0, "\(back.errors)")
            #expect(try back.json()["userInfo"]?["sub"] == .string(user))
            #expect(try back.json()["kid"] == .string(kid))
            let disable = try await machine.run("disable", "--json")
            #expect(disable.status == 0, "\(disable.errors)")
            let after = try await machine.run("status", "--json").json()
            #expect(
                after == [
                    "container": "default", "lastUserID": .string(user), "lastUserName": "alice",
                    "biometricEnabled": false,
                    "sessionState": "AUTHENTICATED", "kid": nil, "server": .string(server.endpoint),
                    "clientID": .string(server.clientID), "isConfiguredServer": true, "sshKeys": 0,
                ])
            #expect(try await machine.run("authenticate", "--json", pins: ["2580"]).status == 6)
            #expect(try await machine.run("disable").status == 6)
        }
        #expect(try await loadedHandles(tpm.tcti) == "")
    }

    @Test func `after logout --keep-biometric the PIN alone logs in`() async throws {
        try await withServer(machine()) { machine, _, _ in
            let kid = try await enable(machine)
            let out = try await machine.run("logout", "--keep-biometric", "--json").json()
            #expect(out["sessionState"] == "NO_SESSION")
            #expect(out["biometricEnabled"] == true)
            #expect(
                try await machine.run("authenticate", "--json", pins: ["2580"]).json()["kid"]
                    == .string(kid))
            let gone = try await machine.run("logout", "--json").json()
            #expect(gone["sessionState"] == "NO_SESSION")
            #expect(gone["biometricEnabled"] == false)
        }
    }

    @Test func `a wrong PIN, a declined prompt and a lockout leave biometric login enabled`()
        async throws
    {
        try await withServer(machine()) { machine, _, _ in
            _ = try await enable(machine)
            for (pins, status) in [
                (["0000"], 4), ([], 7), (["0000"], 4), (["0000"], 4), (["2580"], 5),
            ]
                as [([String], Int32)]
            {
                let outcome = try await machine.run("authenticate", "--json", pins: pins)
                #expect(outcome.status == status, "\(outcome.errors)")
                #expect(
                    try await machine.run("status", "--json").json()["biometricEnabled"] == true)
            }
        }
    }

    @Test func `a lockout is told before the browser opens, and the login works`() async throws {
        try await withServer(machine()) { machine, _, _ in
            let made = try await machine.run("key", "create", "--json", pins: ["2580"])
            let id = try #require(made.json()["id"]?.string)
            for _ in 0..<3 {
                _ = try await machine.run("key", "sign", id, "/dev/null", pins: ["0000"])
            }
            let login = try await machine.run("login")
            #expect(login.status == 0, "\(login)")
            let notice = try #require(login.errors.firstRange(of: "the TPM is locked out"))
            let page = try #require(login.errors.firstRange(of: "The server's page opens"))
            #expect(notice.lowerBound < page.lowerBound, "\(login)")
            // The lock is the same for the locker, which needs the PIN.
            let locker = try await machine.run("locker", "start", "--json", pins: ["2580"])
            #expect(locker.status == 5, "\(locker)")
            #expect(!locker.errors.contains("The server's page opens"), "\(locker)")
        }
    }

    @Test func `a device that was removed on the settings page ends with 6 and is deleted here`()
        async throws
    {
        try await withServer(machine()) { machine, browser, server in
            _ = try await enable(machine)
            try await browser.removeDevice(at: server.endpoint)
            let outcome = try await machine.run("authenticate", "--json", pins: ["2580"])
            #expect(outcome.status == 6)
            #expect(try outcome.json()["error"]?["recovery"]?.string?.isEmpty == false)
            #expect(try await machine.run("status", "--json").json()["biometricEnabled"] == false)
        }
    }

    @Test func `two containers have their own user, session and key`() async throws {
        try await withServer(machine()) { machine, _, server in
            let kid = try await enable(machine)
            let other = try introduce(machine, to: server, as: 1).machine
            let empty = try await other.run("--container", "bob", "status", "--json").json()
            #expect(empty["lastUserID"] == .null)
            #expect(empty["sessionState"] == "NO_SESSION")
            #expect(empty["biometricEnabled"] == false)
            let login = try await other.run("--container", "bob", "login", "--json").json()
            #expect(login["userInfo"]?["preferred_username"] == "bob")
            #expect(
                try await other.run("--container", "bob", "authenticate", pins: ["2580"]).status
                    == 6)
            #expect(try await other.run("--container", "bob", "disable").status == 6)
            #expect(try await machine.run("status", "--json").json()["kid"] == .string(kid))
        }
    }

    @Test func `another user cannot log in while a key belongs to the first user`() async throws {
        try await withServer(machine()) { machine, _, server in
            _ = try await enable(machine)
            let stranger = try introduce(machine, to: server, as: 1).machine
            let before = try await machine.run("status", "--json").json()
            // The request names alice, so the server asks for her password. Bob's browser fails,
            // and bob cancels.
            let browser = try #require(stranger.environment["BROWSER"])
            let givingUp = try machine.directory.makeScript(
                "giving-up", "#!/bin/sh\n'\(browser)' \"$@\" || kill -TERM $PPID\n")
            let outcome = try await stranger.run("login", "--json", extra: ["BROWSER": givingUp])
            #expect(outcome.status == nil && outcome.output.isEmpty, "\(outcome.output)")
            #expect(try await machine.run("status", "--json").json() == before)
            #expect(try await machine.run("authenticate", pins: ["2580"]).status == 0)
        }
    }

    @Test func `of two concurrent enable commands one creates a key`() async throws {
        try await withServer(machine()) { machine, _, _ in
            #expect(try await machine.run("login").status == 0)
            async let first = machine.run("enable", "--json", pins: ["2580"])
            async let second = machine.run("enable", "--json", pins: ["2580"])
            let outcomes = try await [first, second]
            let winners = try outcomes.filter {
                try $0.status == 0 && $0.json()["wasAlreadyEnabled"] == nil
            }
            try #require(winners.count == 1, "\(outcomes)")
            let kid = try #require(winners[0].json()["kid"])
            // The other one ends with a conflict, or finds the key if it begins later.
            for other in try outcomes.map({ try $0.json() }) where other["kid"] != kid {
                #expect(other["error"]?["code"] == "conflict", "\(outcomes)")
            }
            #expect(try await machine.run("status", "--json").json()["kid"] == kid)
            #expect(
                try await machine.run("authenticate", "--json", pins: ["2580"]).json()["kid"] == kid
            )
        }
    }

    @Test func `an edited login row ends with 8 and is not used`() async throws {
        try await withServer(machine()) { machine, _, server in
            _ = try await enable(machine)
            let named = #""issuer":"\#(server.endpoint)","client":"\#(server.clientID)""#
            for attributes in [#"{"sub":"other",\#(named)}"#, #"{"sub":"other"}"#] {
                try store(machine, "login.key", attributes: attributes)
                let outcome = try await machine.run("authenticate", "--json", pins: ["2580"])
                #expect(outcome.status == 8, "\(outcome.errors)")
                #expect(try outcome.json()["error"]?["code"] == "damaged")
            }
        }
    }

    @Test func `errors about biometric login name the commands, and key show finds its key`()
        async throws
    {
        try await withServer(machine()) { machine, _, _ in
            #expect(try await machine.run("login").status == 0)
            let early = try await machine.run("disable", "--json")
            #expect(try early.json()["error"]?["recovery"] == "There is nothing to disable.")
            let id = try await enable(machine)
            let again = try await machine.run("enable")
            #expect(
                again.status == 0 && again.output.contains("already enabled with the key \(id)"),
                "\(again.errors)")
            #expect(try await machine.run("enable", "--json").json()["wasAlreadyEnabled"] == true)
            let stricter = try await machine.run("enable", "--policy", "biometry-any")
            #expect(
                stricter.status == 10 && stricter.errors.contains("‘latchkey disable’"),
                "\(stricter.errors)")
            let other = try await machine.run("logout", "--endpoint", "http://127.0.0.1:1")
            #expect(
                other.status == 10 && other.errors.contains("latchkey logout --force"),
                "\(other.errors)")
            let commands = [
                ["key", "sign", id, "/dev/null"], ["key", "delete", id, "--yes"],
                ["key", "rename", String(id.prefix(4)), "x"],
            ]
            for command in commands {
                let outcome = try await machine.run(command, pins: ["2580"])
                #expect(outcome.status == 6)
                #expect(
                    outcome.errors.contains("the key \(id) belongs to biometric login"),
                    "\(outcome.errors)")
                #expect(outcome.errors.contains("latchkey authenticate"))
            }
            #expect(try await machine.run("key", "show", id, "--json").json()["usedBy"] == "login")
            try await machine.require("pin", "change", id, pins: ["2580", "1357"])
            try await machine.require("authenticate", pins: ["1357"])
        }
    }

    @Test func `without the server a login ends with 7 and the next step`() async throws {
        var machine = try machine()
        machine.environment["LATCHKEY_ENDPOINT"] = "http://127.0.0.1:9"
        machine.environment["LATCHKEY_CLIENT_ID"] = "nobody"
        let outcome = try await machine.run("login", "--json")
        #expect(outcome.status == 7)
        #expect(try outcome.json()["error"]?["recovery"]?.string?.isEmpty == false)
    }

    @Test func `if the browser fails, the user sees the address and the login waits`() async throws
    {
        try await withServer(machine()) { machine, browser, _ in
            // It continues in the background, like a user who opens the address in another browser.
            let failing = try machine.directory.makeScript(
                "failing",
                "#!/bin/sh\n'\(browser.path)' \"$@\" </dev/null >/dev/null 2>&1 &\nexit 3\n")
            let outcome = try await machine.run(
                "login", "--quiet", "--json", extra: ["BROWSER": failing])
            #expect(outcome.status == 0, "\(outcome.errors)")
            #expect(outcome.errors.contains("failed. Open this address in a browser yourself"))
        }
    }

    @Test func `the browser's arguments, which other users can read, do not give access`()
        async throws
    {
        try await withServer(machine()) { machine, browser, _ in
            let seen = machine.directory.path(of: "arguments")
            let spy = try machine.directory.makeScript(
                "spy",
                "#!/bin/sh\nprintf '%s\\n' \"$@\" >'\(seen)'\nexec '\(browser.path)' \"$@\"\n")
            let outcome = try await machine.run("login", extra: ["BROWSER": spy])
            #expect(outcome.status == 0, "\(outcome.errors)")
            let arguments = try String(contentsOfFile: seen, encoding: .utf8)
            #expect(
                arguments.wholeMatch(of: /http:\/\/127\.0\.0\.1:[0-9]+\/start\/[A-Za-z0-9_-]{43}\n/)
                    != nil)
            #expect(outcome.errors.contains(arguments))
            #expect(
                !outcome.errors.contains("state=") && !outcome.errors.contains("code_challenge"))
        }
    }

    @Test func `no secret is in the output, in the store's clear text, or on the TPM's wire`()
        async throws
    {
        let pin = "Zq9!longer-PIN"
        try await withServer(machine()) { machine, _, _ in
            #expect(try await machine.run("login").status == 0)
            let (enabled, first) = try await TPMTraffic.recording(
                machine, ["enable", "--verbose"], pins: [pin])
            let (back, second) = try await TPMTraffic.recording(
                machine, ["authenticate", "--verbose"], pins: [pin])
            #expect([enabled.status, back.status] == [0, 0])
            #expect(!first.commands.isEmpty && !second.commands.isEmpty)
            for text in [enabled.output, enabled.errors, back.output, back.errors] {
                #expect(!text.contains(pin))
                #expect(!text.contains("eyJ"))
            }
            for traffic in [first, second] { #expect(!traffic.contains(Array(pin.utf8))) }
            let folder = machine.directory.path(of: "data/latchkey/default")
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                let bytes = try Data(contentsOf: URL(filePath: "\(folder)/\(name)"))
                #expect(bytes.firstRange(of: Data(pin.utf8)) == nil)
                #expect(bytes.firstRange(of: Data("eyJ".utf8)) == nil)
            }
        }
    }
}
