import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey locker` against a real server and a real software TPM, one process per command.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct LockerCommandTests {
    @Test(.requires(program: "tpm2_changeauth"))
    func `with an owner password, status and doctor report keys that are not revocable`()
        async throws
    {
        try await Machine.withServer { machine in
            func finding() async throws -> JSON? {
                try await machine.run("doctor", "--json").json()["checks"]?.array?.first {
                    $0["name"] == "revocation"
                }
            }
            #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
            #expect(try await finding()?["state"] == "ok")
            try await SystemProgram("tpm2_changeauth").require([
                "-T", SoftwareTPM.current.tcti, "-c", "owner", "secret",
            ])
            #expect(try await finding()?["state"] == "warning")
            #expect(
                try await finding()?["finding"]?.string?.contains("owner has a password") == true)
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let status = try await machine.run("locker", "status", "--json").json()
            #expect(status["isRevocable"] == false)
            #expect(
                try await machine.run("locker", "status").output.contains(
                    "cannot revoke base and offline"))
        }
    }

    @Test func `enrol, start, lock and destroy`() async throws {
        try await Machine.withServer { machine in
            #expect(
                try await machine.run("locker", "status", "--json").json() == [
                    "phase": "unregistered", "easyAccessEnabled": false,
                ])
            let enrolled = try await machine.run("locker", "start", "--json", pins: ["2580"])
            #expect(enrolled.status == 0, "\(enrolled.errors)")
            #expect(try enrolled.json()["phase"] == "activeViaStrongAuth")
            #expect(try enrolled.json()["easyAccessEnabled"] == true)
            #expect(try enrolled.json()["expiresAt"]?.string != nil)

            // No process runs between commands, and status does not use the hardware.
            let off = ["LATCHKEY_TCTI": "swtpm:path=/nonexistent"]
            let status = try await machine.run("locker", "status", "--json", extra: off).json()
            #expect(status["phase"] == "enrolled" && status["easyAccessEnabled"] == true)
            #expect(status["isRevocable"] == true)

            let easy = try await machine.run(
                "locker", "start", "--level", "easy", "--json", pins: ["2580"])
            #expect(try easy.json()["phase"] == "activeViaEasyAccess", "\(easy.errors)")
            let strong = try await machine.run(
                "locker", "start", "--level", "strong", "--json", pins: [])
            #expect(try strong.json()["phase"] == "activeViaStrongAuth", "\(strong.errors)")
            let background = try await machine.run("locker", "background", "--json", pins: [])
            #expect(try background.json()["phase"] == "backgroundAccess", "\(background.errors)")
            #expect(try background.json()["scopes"] == .array(["openid", "profile"]))

            let wrong = try await machine.run("locker", "start", "--json", pins: ["1111"])
            #expect(wrong.status == 4)
            #expect(try wrong.json()["error"]?["code"] == "wrongSecret")

            #expect(
                try await machine.run("locker", "end", "--mode", "lock", "--json").json()["phase"]
                    == "enrolled")
            let end = try await machine.run("locker", "end", "--mode", "destroy", "--yes", "--json")
            #expect(try end.json()["phase"] == "unregistered", "\(end.errors)")
            #expect(try await machine.run("locker", "background").status == 6)
            #expect(
                try await machine.run("locker", "end", "--mode", "destroy", "--yes").status == 6)
        }
    }

    @Test func `text of every level is encrypted and decrypted, and is not in JSON`() async throws {
        try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            for (level, pins) in [
                ("base", []), ("background", []), ("offline", ["2580"]), ("active", ["2580"]),
            ] {
                let secret = "canary ‘\(level)’\nof two lines\n"
                let sealed = try await machine.run(
                    ["locker", "encrypt", "--level", level], pins: pins, input: secret)
                #expect(sealed.status == 0, "\(sealed.errors)")
                let opened = try await machine.run(
                    ["locker", "decrypt"], pins: pins, input: sealed.output)
                #expect(opened.output == secret, "\(opened.errors)")
                let json = try await machine.run(
                    ["locker", "decrypt", "--json"], pins: pins, input: sealed.output)
                #expect(try json.json() == ["level": .string(level)])
                if !pins.isEmpty {
                    let nobody = try await machine.run(
                        ["locker", "decrypt"], pins: [], input: sealed.output)
                    #expect(nobody.status != 0 && nobody.output.isEmpty)
                }
            }
            let text = try await machine.run(["locker", "encrypt", "--level", "base"], input: "x")
                .output
            let verbose = try await machine.run(["locker", "decrypt", "--verbose"], input: text)
            #expect(verbose.output == "x")
            #expect(!verbose.errors.contains(String(text.prefix(40))))
            #expect(try await machine.run(["locker", "decrypt"], input: "nonsense").status == 8)
            let end = try await machine.run("locker", "end", "--mode", "destroy", "--yes")
            #expect(
                (end.status, end.output) == (
                    0, "The enrolment and its data on this machine are destroyed.\n"
                ))
            let late = try await machine.run(["locker", "decrypt", "--json"], input: text)
            #expect(late.status == 6)
            #expect(try late.json()["error"]?["code"] == "notEnrolled")
        }
    }

    @Test func `easy access is changed, disabled and enabled`() async throws {
        try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "easy-access", "change", pins: []).status == 6)
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let changed = try await machine.run(
                "locker", "easy-access", "change", "--json", pins: ["2580", "1357"])
            #expect(try changed.json()["easyAccessEnabled"] == true, "\(changed.errors)")
            #expect(
                try await machine.run("locker", "start", "--level", "easy", pins: ["2580"]).status
                    == 4)
            let disabled = try await machine.run(
                "locker", "easy-access", "disable", "--json", pins: ["1357"])
            #expect(
                try disabled.json() == [
                    "phase": "enrolled", "easyAccessEnabled": false, "isRevocable": true,
                ],
                "\(disabled.errors)")
            #expect(
                try await machine.run("locker", "start", "--level", "easy", pins: []).status == 6)
            let visits = machine.directory.path(of: "visits")
            let browser = try machine.directory.makeScript(
                "counting-browser",
                "#!/bin/sh\necho . >> '\(visits)'\nexec \(machine.environment["BROWSER"] ?? "") \"$@\"\n"
            )
            let enabled = try await machine.run(
                "locker", "easy-access", "enable", "--json", pins: ["8642"],
                extra: ["BROWSER": browser])
            #expect(try enabled.json()["easyAccessEnabled"] == true, "\(enabled.errors)")
            // One login serves the session and the new PIN.
            #expect(try String(contentsOf: URL(filePath: visits), encoding: .utf8) == ".\n")
            #expect(
                try await machine.run("locker", "start", "--level", "easy", pins: ["8642"]).status
                    == 0)
        }
    }

    @Test func `without the server the PIN is enough with --allow-offline`() async throws {
        let (machine, sealed) = try await Machine.withServer { machine in
            #expect(try await machine.run("locker", "start", pins: ["2580"]).status == 0)
            let sealed = try await machine.run(
                ["locker", "encrypt", "--level", "offline"], pins: ["2580"], input: "s3cret")
            return (machine, sealed.output)
        }
        // The server is stopped.
        #expect(
            try await machine.run(["locker", "decrypt"], pins: ["2580"], input: sealed).status == 7)
        let opened = try await machine.run(
            ["locker", "decrypt", "--allow-offline"], pins: ["2580"], input: sealed)
        #expect(opened.output == "s3cret", "\(opened.errors)")
        let wrong = try await machine.run(
            ["locker", "decrypt", "--allow-offline"], pins: ["1111"], input: sealed)
        #expect(wrong.status == 4 && wrong.output.isEmpty)
        let end = try await machine.run("locker", "end", "--mode", "destroy", "--yes", "--json")
        #expect(end.status == 7)
        #expect(try end.json()["error"]?["code"] == "revocationPending")
        #expect(
            try await machine.run("locker", "status", "--json").json()["phase"] == "unregistered")
    }

    @Test func `no server is a usage error`() async throws {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        #expect(try await machine.run("locker", "status").status == 0)
        for arguments in [["start"], ["background"], ["end", "--mode", "lock"]] {
            #expect(try await machine.run(["locker"] + arguments).status == 2)
        }
        #expect(try await machine.run("locker", "end").status == 2)
        #expect(try await machine.run("locker", "start", "--level", "weak").status == 2)
        #expect(try await machine.run(["locker", "encrypt"], input: "x").status == 2)
    }
}
