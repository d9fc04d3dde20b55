import FoundationEssentials
import GRDB
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

/// Errors that `latchkey locker` and related commands report before they prompt.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct LockerRefusalTests {
    /// A browser that only records its calls.
    private func watchedBrowser(_ machine: Machine) throws -> (
        variables: [String: String], wasCalled: () -> Bool
    ) {
        let note = machine.directory.path(of: "visited-\(UInt32.random(in: 0 ... .max))")
        let browser = try machine.directory.makeScript(
            "watched-\(UInt32.random(in: 0 ... .max))", "#!/bin/sh\n: > '\(note)'\nexit 1\n")
        return (["BROWSER": browser], { FileManager.default.fileExists(atPath: note) })
    }

    private func lockerKeys(_ machine: Machine) async throws -> [JSON] {
        try await machine.run("key", "list", "--all", "--json").json()["keys"]?.array?.filter {
            $0["usedBy"] == "locker"
        } ?? []
    }

    @Test func `the locker's keys are not listed, and do not sign and cannot be deleted`()
        async throws
    {
        try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            #expect(
                try await machine.run("key", "list").output.hasPrefix(
                    "There are no keys that you created"))
            let keys = try await lockerKeys(machine)
            #expect(keys.count == 2)
            let digest = String(repeating: "0", count: 64)
            for key in keys {
                let id = try #require(key["id"]?.string)
                for arguments in [
                    ["sign", id, "--digest", digest], ["delete", id], ["delete", id, "--forget"],
                    ["csr", id, "--subject", "CN=x"],
                ] {
                    let outcome = try await machine.run(["key"] + arguments, pins: ["2580"])
                    #expect(outcome.status == 10)
                    #expect(outcome.errors.contains("latchkey locker end --mode destroy"))
                }
            }
            #expect(
                try await machine.run("locker", "start", "--level", "easy", pins: ["2580"]).status
                    == 0)
        }
    }

    @Test(arguments: ["locker: device", "locker: easy access"])
    func `a damaged enrolment can be destroyed and replaced`(label: String) async throws {
        try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let key = try await #require(
                lockerKeys(machine).first { $0["label"] == .string(label) })
            let id = try #require(key["id"]?.string)
            try await DatabaseQueue.raw(at: machine.databasePath).write { database in
                try database.execute(sql: "DELETE FROM record WHERE id = ?", arguments: [id])
            }
            #expect(try await machine.run("locker", "background").status == 8)
            let end = try await machine.run("locker", "end", "--mode", "destroy", "--yes", "--json")
            #expect(end.status == 0, "\(end.errors)")
            #expect(try end.json()["phase"] == "unregistered")
            // Only the device's key can authenticate the removal to the server.
            #expect(
                end.errors.contains("Remove this machine at the server")
                    == (label == "locker: device"))
            #expect(try await lockerKeys(machine).isEmpty)
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
        }
    }

    @Test func `without an enrolment every command fails and starts nothing`() async throws {
        try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let sealed = try await machine.run(
                ["locker", "encrypt", "--level", "active"], pins: ["2580"], input: "x"
            ).output
            #expect(
                try await machine.run("locker", "end", "--mode", "destroy", "--yes").status == 0)

            let browser = try watchedBrowser(machine)
            let levels = ["base", "background", "offline", "active"].map {
                ["encrypt", "--level", $0]
            }
            for arguments in levels + [
                ["decrypt"], ["background"], ["easy-access", "enable"], ["easy-access", "disable"],
                ["start", "--level", "easy"], ["end", "--mode", "lock"],
                ["end", "--mode", "destroy", "--yes"],
            ] {
                let outcome = try await machine.run(
                    ["locker"] + arguments + ["--json"], pins: ["2580"], input: sealed,
                    extra: browser.variables)
                #expect(outcome.status == 6, "\(arguments)")
                #expect(try outcome.json()["error"]?["code"] == "notEnrolled")
                #expect(outcome.errors.contains("Enrol it with ‘latchkey locker start’."))
            }
            #expect(!browser.wasCalled())

            // No prompt for a text of another enrolment.
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let foreign = try await machine.run(
                ["locker", "decrypt", "--json"], pins: [], input: sealed)
            #expect(foreign.status == 8)
            #expect(try foreign.json()["error"]?["code"] == "wrongEnrolment")
        }
    }

    @Test func `status shows the server, and an enrolment belongs to its server`() async throws {
        try await Machine.withServer { machine in
            let endpoint = try #require(machine.environment["LATCHKEY_ENDPOINT"])
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let status = try await machine.run("locker", "status", "--json").json()
            #expect(status["endpoint"] == .string(endpoint))
            #expect(status["levelShares"] == true)
            #expect(status["isConfigured"] == true)
            #expect(
                status["enrolmentID"]?.string?.isEmpty == false
                    && status["userID"]?.string?.isEmpty == false)

            let nowhere = ["LATCHKEY_ENDPOINT": "", "LATCHKEY_CLIENT_ID": ""]
            let alone = try await machine.run("locker", "status", "--json", extra: nowhere)
            #expect(try alone.json()["endpoint"] == .string(endpoint))
            #expect(try alone.json()["isConfigured"] == nil)

            let slash = try await machine.run("locker", "background", "--endpoint", "\(endpoint)/")
            #expect(slash.status == 0, "\(slash.errors)")
            let other = ["--endpoint", "http://127.0.0.1:1"]
            #expect(
                try await machine.run(["locker", "status", "--json"] + other).json()["isConfigured"]
                    == false)
            for command in [["background"], ["start"], ["end", "--mode", "destroy", "--yes"]] {
                #expect(
                    try await machine.run(["locker"] + command + other, pins: ["2580"]).status == 10
                )
            }
        }
    }

    @Test(.requires(program: "tpm2_dictionarylockout"))
    func `easy access does not prompt in vain, and its loss is reported`() async throws {
        try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let again = try await machine.run("locker", "easy-access", "enable", "--json", pins: [])
            #expect(again.status == 10)
            #expect(try again.json()["error"]?["code"] == "easyAccessEnabled")

            // The TPM locks before the locker's own limit of ten.
            let tpm = try SoftwareTPM.current
            let password = try #require(tpm.lockoutPassword)
            var (last, wrong) = (again, 0)
            for _ in 0..<30 where wrong < 10 {
                last = try await machine.run("locker", "start", "--level", "easy", pins: ["0000"])
                guard last.status == 5 else {
                    wrong += 1
                    continue
                }
                try await SystemProgram("tpm2_dictionarylockout").require([
                    "-T", tpm.tcti, "-c", "-p", password,
                ])
            }
            #expect(last.status == 4)
            #expect(last.errors.contains("easy access is now disabled"))
            #expect(last.errors.contains("latchkey locker easy-access enable"))

            let browser = try watchedBrowser(machine)
            for change in ["disable", "change"] {
                let off = try await machine.run(
                    "locker", "easy-access", change, pins: [], extra: browser.variables)
                #expect(off.status == 6)
            }
            #expect(!browser.wasCalled())
        }
    }

    @Test func `a missing server is reported before the prompt, with --allow-offline if it helps`()
        async throws
    {
        let (machine, active, offline) = try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            var texts: [String] = []
            for level in ["active", "offline"] {
                texts.append(
                    try await machine.run(
                        ["locker", "encrypt", "--level", level], pins: ["2580"], input: "x"
                    ).output)
            }
            let doctor = try await machine.run("doctor", "--json").json()["checks"]?.array?.last
            #expect(
                doctor?["state"] == "ok"
                    && doctor?["finding"]?.string?.hasSuffix("and the locker.") == true)
            return (machine, texts[0], texts[1])
        }
        let decrypt = try await machine.run(
            ["locker", "decrypt", "--allow-offline", "--json"], pins: ["2580"], input: active)
        #expect(decrypt.status == 7)
        #expect(try decrypt.json()["error"]?["code"] == "network")
        let change = try await machine.run(
            "locker", "easy-access", "change", "--allow-offline", "--json", pins: ["2580", "1357"])
        #expect(try change.json()["error"]?["code"] == "network")
        let hint = try await machine.run(["locker", "decrypt"], pins: ["2580"], input: offline)
        #expect(hint.status == 7 && hint.errors.contains("--allow-offline"))
        let doctor = try await machine.run("doctor", "--json").json()["checks"]?.array?.last
        #expect(doctor?["name"] == "server" && doctor?["state"] == "warning")
    }

    @Test func `a truncated text is damaged, and a secret has at most 1 MiB`() async throws {
        try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let encrypt = ["locker", "encrypt", "--level", "base"]
            let secret = String(repeating: "a", count: 1 << 20)
            let sealed = try await machine.run(encrypt, input: secret).output
            #expect(try await machine.run(["locker", "decrypt"], input: sealed).output == secret)
            #expect(
                try await machine.run(["locker", "decrypt"], input: String(sealed.prefix(40)))
                    .status == 8)
            #expect(
                try await machine.run(["locker", "decrypt"], input: String(sealed.dropLast(9)))
                    .status == 8)
            #expect(try await machine.run(encrypt, input: secret + "a").status == 2)
            let both = try await machine.run(
                ["locker", "decrypt", "--pin-source", "fd:0"], input: "2580\n")
            #expect(both.status == 2 && both.errors.contains("descriptor 0"))
        }
    }

    @Test func `without a way to prompt for the PIN or finger there is no login first`()
        async throws
    {
        try await Machine.withServer { machine in
            let browser = try watchedBrowser(machine)
            let mute = [
                "LATCHKEY_PIN_SOURCE": "pinentry", "PINENTRY_PROGRAM": "/nonexistent/pinentry",
            ]
            let start = try await machine.run(
                "locker", "start", extra: browser.variables.merging(mute) { $1 })
            #expect(start.status == 7)
            let brokerless = ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"]
            let finger = try await machine.run(
                "locker", "start", "--policy", "biometry-any", pins: ["2580"],
                extra: browser.variables.merging(brokerless) { $1 })
            #expect(finger.status == 7)
            #expect(!browser.wasCalled())
            let doctor = try await machine.run("doctor", "--json", extra: mute).json()["checks"]?
                .array
            #expect(doctor?.first { $0["name"] == "pin-source" }?["state"] == "warning")
        }
    }

    @Test(arguments: [["login"], ["locker", "start"]])
    func `Ctrl-C at the login page ends the command by SIGINT, after a JSON error`(
        command: [String]
    ) async throws {
        try await Machine.withServer { machine in
            let browser = try machine.directory.makeScript(
                "interrupting", "#!/bin/sh\nkill -INT $PPID\n")
            let outcome = try await machine.run(
                command + ["--json"], pins: ["2580"], extra: ["BROWSER": browser])
            #expect(outcome.status == nil, "\(outcome.errors)")
            let code = command == ["login"] ? "cancelled" : "userCancelled"
            #expect(try outcome.json()["error"]?["code"]?.string == code)
            #expect(try outcome.json()["error"]?["recovery"]?.string?.isEmpty == false)
        }
    }
}
