import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// Fingerprints with the tool, the presence broker, fprintd, the bus, a resource manager and the
/// TPM as processes.
@Suite(
    .softwareTPM, .virtualFinger, .requires(program: "swtpm"), .requires(program: "tpm2-abrmd"),
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"),
    .requires(program: "python3"), .timeLimit(.minutes(15)))
struct FingerCommandTests {
    private static let hex = String(repeating: "ab", count: 32)

    /// A machine on which the user has one finger enrolled.
    private func with(
        timeLimit: Int = PresenceBrokerProcess.longestTimeLimit,
        _ body: (Machine, VirtualFingerprintReader, PresenceBrokerProcess) async throws -> Void
    ) async throws {
        let (reader, tpm) = (try VirtualFingerprintReader.current, try SoftwareTPM.current)
        try await reader.enroll(as: "mine", for: NSUserName())
        let manager = try await ResourceManager(tpm, busAddress: reader.busAddress)
        let program = URL(filePath: Products.presenceBroker.string)
        try await PresenceBrokerProcess.withRunning(
            program, tcti: ResourceManager.tcti, reader: reader, timeLimit: timeLimit
        ) { broker in
            var machine = try Machine(tcti: ResourceManager.tcti)
            machine.environment.merge(reader.environment) { $1 }
            try await body(machine, reader, broker)
        }
        await manager.end()
    }

    /// Runs the tool during an event at the reader.
    private func run(
        _ machine: Machine, _ arguments: String..., at reader: VirtualFingerprintReader,
        showing touches: VirtualFingerprintReader.Touch...
    ) async throws -> Outcome {
        async let shown: Void = {
            for touch in touches { try await reader.present(touch) }
        }()
        let outcome = try await machine.run(arguments)
        try await shown
        return outcome
    }

    private func makeKey(_ machine: Machine, _ policy: String, pins: [String]? = nil) async throws
        -> String
    {
        let made = try await machine.run("key", "create", "--policy", policy, "--json", pins: pins)
        #expect(made.status == 0, "\(made.errors)")
        return try #require(made.json()["id"]?.string)
    }

    @Test(.asRoot) func `root lists the broker's users, and removes one`() async throws {
        try await with { machine, _, _ in
            let key = try await makeKey(machine, "pin", pins: ["2580"])
            let users = try await machine.run("broker", "users", "--json")
            #expect(
                try users.json()["users"]
                    == .array([.object(["uid": 0, "name": "root", "places": 1])]), "\(users)")
            #expect(
                try await machine.run("broker", "users").output.contains("0  root  1"))
            for user in ["nobody-of-this-name", "4711"] {
                #expect(
                    try await machine.run("broker", "forget", user, "--yes").status
                        == (user == "4711" ? 6 : 2))
            }
            let removed = try await machine.run("broker", "forget", "root", "--yes", "--json")
            #expect(removed.status == 0, "\(removed)")
            let none = try await machine.run("broker", "users", "--json")
            #expect(try none.json()["users"] == .array([]), "\(none)")
            let use = try await machine.run("key", "sign", key, "/dev/null", pins: ["2580"])
            #expect(use.status == 8, "\(use)")
            #expect(try await machine.run("pin", "status").status == 8)
            let new = try await makeKey(machine, "pin", pins: ["1357"])
            // The key with the removed PIN is still there.
            let status = try await machine.run("pin", "status", "--json")
            #expect(try status.json()["attemptsLeft"] == 10, "\(status)")
            let doctor = try await machine.run("doctor", "--json")
            let check = try doctor.json()["checks"]?.array?.first { $0["name"] == "user-pin" }
            #expect(check?["state"] == "ok", "\(doctor)")
            #expect(
                try await machine.run("key", "sign", new, "/dev/null", pins: ["1357"]).status == 0)
        }
    }

    @Test func `doctor names why the broker does not work, and no key can be created`() async throws
    {
        let (reader, tpm) = (try VirtualFingerprintReader.current, try SoftwareTPM.current)
        let broker = try await PresenceBrokerProcess(
            URL(filePath: Products.presenceBroker.string), tcti: "device:/nonexistent/tpm",
            reader: reader)
        var machine = try Machine(tcti: tpm.tcti)
        machine.environment.merge(reader.environment) { $1 }
        let doctor = try await machine.run("doctor", "--json")
        #expect(doctor.status == 7, "\(doctor)")
        let checks = try doctor.json()["checks"]?.array
        let check = checks?.first { $0["name"] == "broker" }
        #expect(check?["state"] == "problem", "\(doctor)")
        #expect(check?["finding"]?.string?.contains("/nonexistent/tpm") == true, "\(doctor)")
        let finger = checks?.first { $0["name"] == "finger" }
        #expect(finger?["advice"] == "See the check ‘broker’.", "\(doctor)")
        let key = try await machine.run("key", "create", "--policy", "pin", pins: ["2580"])
        #expect(key.status == 7, "\(key)")
        await broker.stop(SIGKILL)
    }

    @Test func `a broker on another TPM is named before the prompt, by doctor and the command`()
        async throws
    {
        let other = try await SoftwareTPM()
        try await with { machine, _, _ in
            var elsewhere = try Machine(tcti: other.tcti)
            elsewhere.environment.merge(machine.environment) { own, broker in own }
            // The user's first PIN, and then one that is set.
            for _ in 0..<2 {
                let doctor = try await elsewhere.run("doctor", "--json")
                #expect(doctor.status == 8, "\(doctor)")
                let checks = try doctor.json()["checks"]?.array ?? []
                let check = checks.first { $0["name"] == "broker" }
                #expect(check?["state"] == "problem", "\(doctor)")
                #expect(check?["finding"]?.string?.contains("another TPM") == true, "\(doctor)")
                #expect(check?["advice"]?.string?.contains("--tcti") == true, "\(doctor)")
                #expect(!checks.contains { $0["name"] == "user-pin" }, "\(doctor)")
                // Without a PIN, because there is no prompt.
                let key = try await elsewhere.run("key", "create", "--policy", "pin", "--json")
                #expect(key.status == 8, "\(key)")
                let error = try key.json()["error"]
                #expect(error?["message"]?.string?.contains("another TPM") == true, "\(key)")
                #expect(error?["recovery"]?.string?.contains("--tcti") == true, "\(key)")
                _ = try await makeKey(elsewhere, "none")
                _ = try await makeKey(machine, "pin", pins: ["2580"])
            }
        }
        await other.cutPower()
    }

    @Test func `a vault with biometrics opens with a finger unless its policy is pin`() async throws
    {
        try await with { machine, reader, _ in
            let stored = try await machine.run(
                "vault", "store", "app", "--biometrics", pins: ["2580"], input: "s3cret")
            #expect(stored.status == 0, "\(stored.errors)")
            let shown = try await run(
                machine, "vault", "show", "app", "--presence", "finger", at: reader,
                showing: .finger("mine"))
            #expect(shown.status == 0 && shown.output == "s3cret", "\(shown.errors)")
            #expect(
                try await machine.run("vault", "show", "app", pins: ["2580"]).output == "s3cret")
            let downgraded = try await run(
                machine, "vault", "downgrade", "app", "--presence", "finger", at: reader,
                showing: .finger("mine"))
            #expect(downgraded.status == 0, "\(downgraded.errors)")
            let upgraded = try await machine.run(
                "vault", "upgrade", "app", "--policy", "pin", pins: ["2580"])
            #expect(upgraded.status == 0, "\(upgraded.errors)")
            #expect(
                try await machine.run(
                    "vault", "show", "app", "--presence", "finger", pins: ["2580"]
                ).output == "s3cret"
            )
        }
    }

    @Test func `enabling and logging in work with a finger`() async throws {
        try await with { machine, reader, _ in
            try await IdentityProcess.withRunning(
                database: machine.directory.path(of: "identity.sqlite")
            ) { server in
                var machine = machine
                let browser = try ScriptedBrowser(user: server.users[0], in: machine.directory)
                machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
                machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
                machine.environment["BROWSER"] = browser.path
                #expect(try await machine.run("login").status == 0)
                let enabled = try await run(
                    machine, "enable", "--policy", "biometry-any", "--json", at: reader,
                    showing: .finger("mine"))
                #expect(enabled.status == 0, "\(enabled.errors)")
                #expect(try enabled.json()["policy"] == "biometry-any")
                #expect(try enabled.json()["enforcedPresence"] == "finger")
                let back = try await run(
                    machine, "authenticate", "--json", at: reader, showing: .tooShort,
                    .finger("mine"))
                #expect(back.status == 0, "\(back.errors)")
                #expect(try back.json()["kid"] == enabled.json()["kid"])
                #expect(
                    back.errors.contains(
                        "asks for a finger of \(NSUserName()). Its reason: “log in to "))
                let other = try await run(
                    machine, "authenticate", at: reader, showing: .finger("another's"))
                #expect(other.status == 4)
                #expect(try await machine.run("disable", "--force").status == 0)
                let either = try await machine.run("enable", "--json", pins: ["2580"])
                #expect(either.status == 0, "\(either.errors)")
                #expect(
                    try either.json()["policy"] == "user-presence",
                    "the default where a finger can be checked")
                let finger = try await run(
                    machine, "authenticate", "--presence", "finger", at: reader,
                    showing: .finger("mine"))
                #expect(finger.status == 0, "\(finger.errors)")
                #expect(
                    try await machine.run("authenticate", "--presence", "pin", pins: ["2580"])
                        .status == 0)
            }
        }
    }

    @Test func `a finger or the PIN starts a session of the locker`() async throws {
        try await with { machine, reader, _ in
            try await IdentityProcess.withRunning(
                database: machine.directory.path(of: "identity.sqlite")
            ) { server in
                var machine = machine
                let browser = try ScriptedBrowser(user: server.users[0], in: machine.directory)
                machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
                machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
                machine.environment["BROWSER"] = browser.path
                // The default where a finger can be checked.
                let enrolled = try await machine.run("locker", "start", "--json", pins: ["2580"])
                #expect(enrolled.status == 0, "\(enrolled.errors)")
                #expect(try enrolled.json()["phase"] == "activeViaStrongAuth")
                let text = try await machine.run(
                    "locker", "encrypt", "--level", "active", "--presence", "pin", pins: ["2580"],
                    input: "s3cret")
                #expect(text.status == 0, "\(text.errors)")

                let start = ["locker", "start", "--level", "easy", "--json"]
                let finger = try await run(
                    machine, "locker", "start", "--level", "easy", "--json", "--presence", "finger",
                    at: reader,
                    showing: .finger("mine"))
                #expect(finger.status == 0, "\(finger.errors)")
                #expect(try finger.json()["phase"] == "activeViaEasyAccess")
                let other = try await run(
                    machine, "locker", "start", "--presence", "finger", at: reader,
                    showing: .finger("another's"))
                #expect(other.status == 4)
                let pin = try await machine.run(start + ["--presence", "pin"], pins: ["2580"])
                #expect(try pin.json()["phase"] == "activeViaEasyAccess", "\(pin.errors)")
            }
        }
    }

    @Test func `each end of a prompt has its exit code`() async throws {
        try await with { machine, reader, broker in
            let key = try await makeKey(machine, "biometry-any")
            let sign = ["key", "sign", key, "--digest", Self.hex]
            func run(_ touch: VirtualFingerprintReader.Touch...) async throws -> Int32? {
                async let shown: Void = {
                    for touch in touch { try await reader.present(touch) }
                }()
                let outcome = try await machine.run(sign)
                try await shown
                return outcome.status
            }
            #expect(try await run(.finger("mine")) == 0)
            #expect(try await run(.finger("another's")) == 4)
            #expect(try await run(.unreadable, .finger("mine")) == 0)
            #expect(try await run(.failure) == 7)
            async let waiting = machine.run(sign)
            while try await isIdle(reader) { try await Task.sleep(for: .milliseconds(10)) }
            await broker.stop(SIGKILL)
            let orphan = try await waiting
            #expect(orphan.status == 10)
            #expect(orphan.errors.contains("the presence broker did not answer"))
            try await broker.start()
            #expect(try await run(.finger("mine")) == 0)
            #expect(
                try await machine.run(sign + ["--presence", "pin"]).status != 0,
                "the key has no PIN")
        }
    }

    @Test func `without a finger the prompt times out`() async throws {
        try await with(timeLimit: 1) { machine, _, _ in
            let key = try await makeKey(machine, "biometry-any")
            let outcome = try await machine.run("key", "sign", key, "--digest", Self.hex, "--json")
            #expect(outcome.status == 3)
            #expect(try outcome.json()["error"] != nil)
        }
    }

    @Test func `a change of the enrolled fingers is reported`() async throws {
        try await with { machine, reader, _ in
            let bound = try await makeKey(machine, "biometry-current-set")
            let free = try await makeKey(machine, "biometry-any")
            try await reader.enroll(.leftThumb, as: "another", for: NSUserName())
            let dead = try await machine.run("key", "sign", bound, "--digest", Self.hex)
            #expect(dead.status == 8)
            #expect(dead.errors.contains("the enrolled fingers changed"))
            let alive = try await run(
                machine, "key", "sign", free, "--digest", Self.hex, at: reader,
                showing: .finger("another"))
            #expect(alive.status == 0)
        }
    }

    @Test
    func `a container with only a vault shows the user's own counter, also when it is locked`()
        async throws
    {
        try await with { machine, _, _ in
            let stored = try await machine.run(
                "vault", "store", "app", "--biometrics", "--presence", "pin", pins: ["2580"],
                input: "s3cret")
            #expect(stored.status == 0, "\(stored.errors)")
            #expect(try await machine.run("pin", "status", "--json").json()["attemptLimit"] == 10)
            // The broker notices at the next request that the PIN is set, and resets its count then.
            let other = try await makeKey(machine, "pin", pins: ["2580"])
            #expect(try await machine.run("key", "delete", other, "--yes").status == 0)
            var last = ""
            for _ in 0..<10 {
                let wrong = try await machine.run(
                    "vault", "show", "app", "--presence", "pin", pins: ["9999"])
                #expect(wrong.status == 4)
                last = wrong.errors
            }
            // Waiting does not end this lockout.
            #expect(last.contains("no attempt is left"), "\(last)")
            #expect(last.contains("Use your fingerprint") && !last.contains("Wait"), "\(last)")
            let locked = try await machine.run(
                "vault", "show", "app", "--presence", "pin", pins: ["2580"])
            #expect(locked.status == 5)
            #expect(locked.errors.contains("man latchkey-presenced"))
            #expect(try await machine.run("pin", "status", "--json").json()["lockedOut"] == true)
            let status = try await machine.run("pin", "status")
            #expect(status.output.contains("Use your finger"))
            try await expectNoNewKey(machine)
            // The next new key needs the PIN, also if no other one does.
            #expect(try await machine.run("vault", "reset", "app", "--yes").status == 0)
            #expect(try await machine.run("pin", "status", "--json").json()["lockedOut"] == true)
            try await expectNoNewKey(machine)
        }
    }

    private func expectNoNewKey(_ machine: Machine) async throws {
        let doctor = try await machine.run("doctor", "--json")
        let check = try doctor.json()["checks"]?.array?.first { $0["name"] == "user-pin" }
        #expect(check?["state"] == "problem")
        #expect(doctor.status == 5)
        #expect(try await machine.run("key", "create", pins: ["2580"]).status == 5)
    }

    @Test(.enabled(if: geteuid() == 0, "only root removes a user's PIN"))
    func `a forgotten PIN has a way to a new one, which opens nothing of the old one`() async throws
    {
        try await with { machine, _, _ in
            let old = try await makeKey(machine, "pin", pins: ["2580"])
            let copy = machine.directory.path(of: "copy")
            try FileManager.default.copyItem(
                atPath: machine.directory.path(of: "data/latchkey"), toPath: copy)
            #expect(try await machine.run("key", "delete", old, "--yes").status == 0)
            #expect(try await machine.run("pin", "status", "--json").json()["attemptsLeft"] == 10)
            let unused = try await machine.run("pin", "change")
            #expect(unused.status == 6, "\(unused.errors)")
            #expect(unused.errors.contains("latchkey broker forget"), "\(unused.errors)")
            let forgotten = try await machine.run("key", "create", pins: ["9999"])
            #expect(forgotten.status == 4)
            #expect(forgotten.errors.contains("If you forgot the PIN"), "\(forgotten.errors)")

            let removed = try await machine.run("broker", "forget", "root", "--yes")
            #expect(removed.status == 0, "\(removed.errors)")
            let new = try await makeKey(machine, "pin", pins: ["1357"])
            let sign = ["key", "sign", "--digest", Self.hex]
            #expect(try await machine.run(sign + [new], pins: ["1357"]).status == 0)
            for pin in ["1357", "2580"] {
                let dead = try await machine.run(sign + [old, "--store", copy], pins: [pin])
                #expect(dead.status == 8, "\(dead.errors)")
            }
        }
    }

    @Test func `a key for a finger or the PIN shows its counter of wrong PINs`() async throws {
        try await with { machine, reader, _ in
            let key = try await makeKey(machine, "user-presence", pins: ["2580"])
            let shown = try await machine.run("key", "show", key, "--json").json()
            #expect(shown["pinProtection"] == "user")
            #expect(shown["enforcedPresence"] == "finger-or-pin")
            let sign = ["key", "sign", key, "--digest", Self.hex]
            #expect(
                try await machine.run(sign + ["--presence", "pin"], pins: ["2580"]).status == 0)
            #expect(
                try await machine.run(sign + ["--presence", "pin"], pins: ["9999"]).status == 4)
            #expect(try await machine.run("pin", "status", "--json").json()["attemptsLeft"] == 9)
            #expect(
                try await run(
                    machine, "key", "sign", key, "--digest", Self.hex, "--presence", "finger",
                    at: reader,
                    showing: .finger("mine")
                ).status == 0)
            let doctor = try await machine.run("doctor")
            #expect(doctor.status == 0)
            #expect(doctor.output.contains("you have a finger enrolled"))
            let second = try await makeKey(machine, "pin", pins: ["2580"])
            #expect(
                try await machine.run("key", "sign", second, "--digest", Self.hex, pins: ["2580"])
                    .status == 0)
        }
    }

    /// Whether no program prompts for a finger.
    private func isIdle(_ reader: VirtualFingerprintReader) async throws -> Bool {
        let text = try await program(
            "gdbus",
            [
                "call", "--address", reader.busAddress, "--dest", "net.reactivated.Fprint",
                "--object-path",
                "/net/reactivated/Fprint/Device/0", "--method",
                "org.freedesktop.DBus.Properties.Get",
                "net.reactivated.Fprint.Device", "finger-needed",
            ])
        return !text.contains("true")
    }
}
