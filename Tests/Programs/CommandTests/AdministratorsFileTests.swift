import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The administrator's file: defaults of all users, and settings that they cannot weaken.
@Suite(
    .asRoot, .requires(program: "unshare"), .requires(program: "setpriv"),
    .timeLimit(.minutes(15)))
struct AdministratorsFileTests {
    private static let path = AdministratorsFile.path
    private static let nobody = AdministratorsFile.nobody

    @Test func `its settings are defaults, and doctor and config list name it`() async throws {
        let file = try await AdministratorsFile(
            #"{"container": "all", "client-id": "app", "fixed": {"minimum-policy": "pin"}}"#)
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        let status = try await file.run("status", "--json", on: machine, as: Self.nobody)
        #expect(try status.json()["container"] == "all", "\(status)")
        let own = try await file.run(
            "status", "--json", on: machine, as: Self.nobody,
            extra: ["LATCHKEY_CONTAINER": "mine"])
        #expect(try own.json()["container"] == "mine")
        let list = try await file.run("config", "list", "--json", on: machine, as: Self.nobody)
        let settings = try #require(list.json()["settings"]?.array)
        func row(_ name: String) -> JSON? { settings.first { $0["name"]?.string == name } }
        #expect(
            row("client-id")
                == .object([
                    "name": "client-id", "value": "app", "source": "administrator",
                    "place": .string(Self.path), "isFixed": false,
                ]))
        #expect(
            row("minimum-policy")
                == .object([
                    "name": "minimum-policy", "value": "pin", "source": "administrator",
                    "place": .string(Self.path), "isFixed": true,
                ]))
        let doctor = try await file.run("doctor", "--json", on: machine, as: Self.nobody)
        let check = try doctor.json()["checks"]?.array?.first { $0["name"] == "settings" }
        #expect(check?["state"] == "ok")
        #expect(
            check?["finding"]?.string
                == "The administrator's file \(Self.path) sets container, client-id, and fixes minimum-policy."
        )
        let without = try await Machine(tcti: "device:/nonexistent/tpm").run("doctor", "--json")
        let none = try without.json()["checks"]?.array?.first { $0["name"] == "settings" }
        #expect(
            none?["finding"]?.string == "There is no administrator's file \(Self.path).",
            "\(without)")
    }

    @Test func `a file whose name is not read is a warning`() async throws {
        let file = try await AdministratorsFile(#"{"client-id": "app"}"#)
        for name in ["config.JSON", "config.json.bak", "token"] {
            try Data("{}".utf8).write(to: URL(filePath: "\(file.folder)/\(name)"))
        }
        let doctor = try await file.run("doctor", "--json", on: Machine(tcti: nil))
        let check = try doctor.json()["checks"]?.array?.first { $0["name"] == "settings" }
        #expect(check?["state"] == "warning", "\(doctor)")
        #expect(
            check?["finding"]?.string
                == "The administrator's file \(Self.path) sets client-id, and fixes no setting. "
                + "No program reads config.JSON, config.json.bak."
        )
    }

    @Test func `doctor reports settings that no program accepts as a check, and exits with 2`()
        async throws
    {
        let file = try await AdministratorsFile(#"{"fixed": {"client-id": "app"}}"#)
        let doctor = try await file.run(
            "doctor", "--json", on: Machine(tcti: nil), as: Self.nobody,
            extra: ["LATCHKEY_CLIENT_ID": "other"])
        #expect(doctor.status == 2, "\(doctor)")
        let checks = try #require(doctor.json()["checks"]?.array)
        #expect(checks.map { $0["name"]?.string } == ["settings", "policy"])
        #expect(checks[0]["state"] == "problem")
        #expect(checks[0]["finding"]?.string?.contains("fixes ‘app’") == true, "\(doctor)")
        #expect(try doctor.json()["ok"] == false)
    }

    @Test func `all contradictions are named at once, with how to remove each`() async throws {
        let file = try await AdministratorsFile(
            #"{"fixed": {"client-id": "app", "container": "all", "minimum-policy": "pin"}}"#)
        let machine = try Machine(tcti: nil)
        let own = machine.directory.path(of: "config/latchkey/config.json")
        try FileManager.default.createDirectory(
            atPath: machine.directory.path(of: "config/latchkey"),
            withIntermediateDirectories: true)
        try Data(#"{"minimum-policy": "none", "client-id": "other"}"#.utf8).write(
            to: URL(filePath: own))
        let outcome = try await file.run(
            "status", "--container", "mine", "--json", on: machine, as: Self.nobody,
            extra: ["LATCHKEY_CLIENT_ID": "third"])
        let error = try #require(outcome.json()["error"])
        let message = error["message"]?.string ?? ""
        for part in [
            "--container sets ‘mine’", "\(own) sets ‘none’", "\(own) sets ‘other’",
            "LATCHKEY_CLIENT_ID sets ‘third’",
        ] {
            #expect(message.contains(part), "\(message)")
        }
        #expect(
            error["recovery"]?.string
                == "Remove what contradicts the administrator of this machine: omit --container, "
                + "run ‘latchkey config unset minimum-policy’, run ‘unset LATCHKEY_CLIENT_ID’, "
                + "run ‘latchkey config unset client-id’.", "\(error)")
        for name in ["minimum-policy", "client-id"] {
            let unset = try await file.run("config", "unset", name, on: machine, as: Self.nobody)
            #expect(unset.status == 0, "\(unset)")
        }
        #expect(try await file.run("status", on: machine, as: Self.nobody).status == 0)
    }

    @Test
    func `root sees that users cannot read the file, and users are sent to the administrator`()
        async throws
    {
        let file = try await AdministratorsFile(#"{"client-id": "app"}"#)
        for (path, mode) in [(file.file, 0o600 as mode_t), (file.folder, 0o700)] {
            try #require(chmod(path, mode) == 0)
            for command in [["config", "list"], ["doctor"], ["status"]] {
                let outcome = try await file.run(command, on: Machine(tcti: nil))
                #expect(outcome.status == 2, "\(outcome)")
                let text = outcome.output + outcome.errors
                #expect(text.contains("does not let all users read it"), "\(outcome)")
            }
            try #require(chmod(path, path == file.file ? 0o644 : 0o755) == 0)
        }
        try file.write("{")
        let user = try await file.run("status", on: Machine(tcti: nil), as: Self.nobody)
        #expect(
            user.errors.contains(
                "Ask the administrator of this machine to correct this place in \(Self.path)."),
            "\(user)")
        let root = try await file.run("status", on: Machine(tcti: nil))
        #expect(root.errors.contains("Correct this place in \(Self.path)."), "\(root)")
    }

    // MARK: Fixed settings

    /// A fixed value, and values that a user may not and may set.
    struct Rule: Sendable, CustomTestStringConvertible {
        let name: String
        let fixed: String
        let weaker: String
        let accepted: [String]

        var testDescription: String { "\(name) \(fixed) \(weaker)" }
        var variable: String { "LATCHKEY_\(name.uppercased().replacing("-", with: "_"))" }

        func json(_ value: String) -> String {
            let literal = name == "allow-short-pin" ? value : "\"\(value)\""
            return "{\"\(name)\": \(literal)}"
        }

        /// The administrator's file.
        var file: String {
            var rules = json(fixed)
            if name == "trusted-origins" {
                rules.replace("{", with: #"{"endpoint": "https://id.example", "#)
            }
            return "{\"fixed\": \(rules)}"
        }

        func option(_ value: String) -> [String]? {
            switch name {
            case "minimum-policy": nil
            case "allow-short-pin": value == "true" ? ["--allow-short-pin"] : nil
            default: ["--\(name)", value]
            }
        }
    }

    private static let rules = [
        Rule(
            name: "endpoint", fixed: "https://id.example", weaker: "https://evil.example",
            accepted: ["https://id.example", "https://id.example/"]),
        Rule(name: "client-id", fixed: "app", weaker: "other", accepted: ["app"]),
        Rule(
            name: "trusted-origins", fixed: "https://a.example", weaker: "https://b.example",
            accepted: ["https://a.example", "https://a.example/"]),
        Rule(
            name: "token-isolation", fixed: "auto", weaker: "never", accepted: ["auto", "always"]),
        Rule(name: "token-isolation", fixed: "always", weaker: "auto", accepted: ["always"]),
        Rule(name: "allow-short-pin", fixed: "false", weaker: "true", accepted: ["false"]),
        Rule(name: "allow-short-pin", fixed: "true", weaker: "", accepted: ["true", "false"]),
        Rule(
            name: "minimum-policy", fixed: "user-presence", weaker: "none",
            accepted: ["user-presence", "pin", "biometry-any", "biometry-current-set"]),
        Rule(name: "minimum-policy", fixed: "pin", weaker: "user-presence", accepted: ["pin"]),
        Rule(name: "minimum-policy", fixed: "pin", weaker: "biometry-any", accepted: ["pin"]),
        Rule(
            name: "minimum-policy", fixed: "biometry-any", weaker: "pin",
            accepted: ["biometry-any", "biometry-current-set"]),
        Rule(
            name: "minimum-policy", fixed: "biometry-current-set", weaker: "biometry-any",
            accepted: ["biometry-current-set"]),
    ]

    @Test(arguments: rules)
    func `a user's option, variable or file cannot weaken a fixed setting`(rule: Rule)
        async throws
    {
        let file = try await AdministratorsFile(rule.file)
        func outcomes(_ value: String) async throws -> [(place: String, outcome: Outcome)] {
            var outcomes: [(place: String, outcome: Outcome)] = []
            if let option = rule.option(value) {
                let machine = try Machine(tcti: nil)
                let command = ["status", "--json"] + option
                outcomes.append(("--\(rule.name)", try await run(file, command, machine)))
            }
            let variable = try await run(
                file, ["status", "--json"], Machine(tcti: nil), [rule.variable: value])
            outcomes.append((rule.variable, variable))
            let machine = try Machine(tcti: nil)
            let own = machine.directory.path(of: "config/latchkey/config.json")
            try FileManager.default.createDirectory(
                atPath: machine.directory.path(of: "config/latchkey"),
                withIntermediateDirectories: true)
            try Data(rule.json(value).utf8).write(to: URL(filePath: own))
            outcomes.append((own, try await run(file, ["status", "--json"], machine)))
            return outcomes
        }
        for value in rule.accepted {
            for (place, outcome) in try await outcomes(value) {
                #expect(outcome.status == 0, "\(place) \(value): \(outcome)")
            }
        }
        guard !rule.weaker.isEmpty else { return }
        for (place, outcome) in try await outcomes(rule.weaker) {
            #expect(outcome.status == 2, "\(place): \(outcome)")
            #expect(
                try outcome.json()["error"]?["message"]?.string
                    == "Could not read the settings: \(rule.name): \(Self.path) fixes ‘\(rule.fixed)’, and "
                    + "\(place) sets ‘\(rule.weaker)’.", "\(outcome)")
        }
        let set = try await run(
            file, ["config", "set", rule.name, rule.weaker, "--json"], Machine(tcti: nil))
        #expect(set.status == 2, "\(set)")
        let error = try set.json()["error"]
        #expect(
            error?["message"]?.string
                == "Could not change the settings: \(rule.name): \(Self.path) fixes ‘\(rule.fixed)’, and "
                + "the new value is ‘\(rule.weaker)’.", "\(set)")
        #expect(error?["recovery"]?.string?.contains("unset") == false, "\(set)")
    }

    private func run(
        _ file: AdministratorsFile, _ arguments: [String], _ machine: Machine,
        _ extra: [String: String] = [:]
    ) async throws -> Outcome {
        try await file.run(arguments, on: machine, as: Self.nobody, extra: extra)
    }

    @Test func `a fixed endpoint gets no other origins of the user`() async throws {
        let file = try await AdministratorsFile(
            #"{"fixed": {"endpoint": "https://id.example"}}"#)
        let machine = try Machine(tcti: nil)
        let outcome = try await file.run(
            "status", "--trusted-origins", "https://evil.example", "--json", on: machine)
        #expect(outcome.status == 2)
        #expect(
            try outcome.json()["error"]?["message"]?.string?.contains(
                "trusted-origins: \(Self.path) fixes ‘’") == true, "\(outcome)")
        // A correction does not need a run without the conflict.
        let own = machine.directory.path(of: "config/latchkey/config.json")
        try FileManager.default.createDirectory(
            atPath: machine.directory.path(of: "config/latchkey"),
            withIntermediateDirectories: true)
        try Data(#"{"endpoint": "https://evil.example"}"#.utf8).write(to: URL(filePath: own))
        #expect(try await file.run("status", on: machine).status == 2)
        #expect(try await file.run("config", "unset", "endpoint", on: machine).status == 0)
        #expect(try await file.run("status", on: machine).status == 0)
    }

    @Test func `a fixed TPM is not replaced by a token of the user`() async throws {
        let file = try await AdministratorsFile(
            #"{"fixed": {"tcti": "device:/nonexistent/tpm"}}"#)
        let machine = try Machine(tcti: nil)
        let outcome = try await file.run(
            "status", "--token", "pkcs11:token=a", "--json", on: machine)
        #expect(outcome.status == 2)
        #expect(
            try outcome.json()["error"]?["message"]?.string?.contains(
                "token: \(Self.path) fixes ‘’") == true, "\(outcome)")
        #expect(try await file.run("status", on: machine).status == 0)
    }

    // MARK: The minimum policy

    @Test(arguments: [
        ["key", "create", "--policy", "none"], ["key", "create", "--policy", "user-presence"],
        ["vault", "store", "v", "--biometrics", "--policy", "pin"],
        ["vault", "upgrade", "v", "--policy", "pin"], ["vault", "downgrade", "v"],
        ["credential", "add", "--policy", "none"], ["enable", "--policy", "pin"],
        ["locker", "start", "--policy", "pin"],
        ["locker", "easy-access", "enable", "--policy", "user-presence"],
        ["passkey", "serve", "--policy", "pin"],
    ])
    func `no command creates a key or secret under a policy that does not meet the minimum`(
        command: [String]
    ) async throws {
        let file = try await AdministratorsFile(
            #"{"fixed": {"minimum-policy": "biometry-any"}}"#)
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        let outcome = try await file.run(
            command, on: machine,
            extra: ["LATCHKEY_ENDPOINT": "https://id.example", "LATCHKEY_CLIENT_ID": "app"],
            input: "secret")
        // Before the hardware, which would end with 7.
        #expect(outcome.status == 2, "\(outcome)")
        #expect(
            outcome.errors.contains(
                "does not meet the minimum policy ‘biometry-any’ of \(Self.path)"), "\(outcome)")
    }

    /// systemd does not start a service again after 2.
    @Test func `the passkey service ends with 2 for a policy that does not meet the minimum`()
        async throws
    {
        let file = try await AdministratorsFile(
            #"{"fixed": {"minimum-policy": "biometry-any"}}"#)
        let outcome = try await file.run(
            "--policy", "pin", on: Machine(tcti: nil), program: Products.passkeys)
        #expect(outcome.status == 2, "\(outcome)")
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `a minimum that is raised applies to new passkeys of a running service`() async throws {
        let file = try await AdministratorsFile(
            #"{"fixed": {"minimum-policy": "user-presence"}}"#)
        let pinentry = "\(file.folder)/pinentry"
        try Data(
            """
            #!/bin/sh
            echo OK
            while read -r command text; do
              case $command in
                GETINFO) printf 'D gtk2\\nOK\\n' ;;
                *) echo OK ;;
              esac
            done
            """.utf8
        ).write(to: URL(filePath: pinentry))
        try #require(chmod(pinentry, 0o755) == 0)
        try await PasskeyRelay.withService(
            file.command(Products.passkeys), extra: ["PINENTRY_PROGRAM": pinentry]
        ) { service, relay in
            let channel = try await PasskeyRelay.openChannel(relay)
            /// Whether the device says that it can verify the user for a new passkey.
            func canVerify() async -> Bool? {
                // CTAPHID_CBOR with authenticatorGetInfo. The option uv is in the second packet.
                PasskeyRelay.send([0x04], 0x10, on: channel, relay)
                let packet = await PasskeyRelay.packet(from: relay) {
                    $0.starts(with: channel + [0])
                }
                let name = Array("uv".utf8)
                return packet.contains(name + [0xF5])
                    ? true : packet.contains(name + [0xF4]) ? false : nil
            }
            #expect(await canVerify() == true)
            // No finger can be verified here.
            try file.write(#"{"fixed": {"minimum-policy": "biometry-any"}}"#)
            #expect(await canVerify() == false)
            try file.write(#"{"fixed": {"minimum-policy": "pin"}}"#)
            #expect(await canVerify() == true)
            try file.write("{")
            #expect(await canVerify() == false)
            #expect(await service.stop() == 0)
            let errors = await service.remainder().errors
            #expect(errors.contains("is not a JSON object"), "\(errors)")
        }
    }

    @Test(.softwareTPM, .requires(program: "swtpm"), arguments: ["user-presence", "pin"])
    func `without an option, each new key and secret meets the minimum`(minimum: String)
        async throws
    {
        let file = try await AdministratorsFile(
            #"{"fixed": {"minimum-policy": "\#(minimum)"}}"#)
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let pins = ["258025"]
        let key = try await file.run("key", "create", "--json", on: machine, pins: pins)
        #expect(try key.json()["policy"] == "pin", "\(key)")
        for arguments in [["v"], ["w", "--biometrics"]] {
            let vault = try await file.run(
                ["vault", "store"] + arguments + ["--json"], on: machine, pins: pins,
                input: "secret")
            #expect(try vault.json()["biometricsEnabled"] == true, "\(vault)")
        }
        let answer = #"{"access_token":"a","token_type":"Bearer","expires_in":60}"#
        let server = ["LATCHKEY_ENDPOINT": "http://127.0.0.1:9", "LATCHKEY_CLIENT_ID": "app"]
        let credential = try await file.run(
            ["credential", "add", "--json"], on: machine, extra: server, pins: pins, input: answer)
        let id = try #require(credential.json()["id"]?.string, "\(credential)")
        let shown = try await file.run("credential", "show", id, "--json", on: machine)
        #expect(try shown.json()["policy"] == "pin", "\(shown)")
    }

    @Test func `a default that the minimum replaces is created under the minimum, or not at all`()
        async throws
    {
        let file = try await AdministratorsFile(
            #"{"fixed": {"minimum-policy": "biometry-any"}}"#)
        for command in [["key", "create"], ["vault", "store", "v"]] {
            let machine = try Machine(tcti: "device:/nonexistent/tpm")
            let outcome = try await file.run(command, on: machine, pins: ["258025"], input: "s")
            // The policy is no obstacle; the hardware is.
            #expect(outcome.status == 7, "\(outcome)")
            #expect(!outcome.errors.contains("minimum"), "\(outcome)")
        }
    }

    /// What `doctor` says about the minimum.
    @Test(
        .softwareTPM, .requires(program: "swtpm"),
        arguments: [
            ("none", "ok", nil),
            ("user-presence", "ok", "This machine can enforce pin; no fingerprint can be checked"),
            ("pin", "ok", "This machine can enforce pin."),
            ("biometry-any", "problem", "no fingerprint can be checked"),
            ("biometry-current-set", "problem", "no fingerprint can be checked"),
        ] as [(String, String?, String?)])
    func `doctor says whether this machine can enforce the minimum`(
        minimum: String, state: String?, words: String?
    ) async throws {
        let file = try await AdministratorsFile(
            #"{"fixed": {"minimum-policy": "\#(minimum)"}}"#)
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let doctor = try await file.run("doctor", "--json", on: machine)
        let check = try doctor.json()["checks"]?.array?.first { $0["name"] == "policy" }
        #expect(check?["state"]?.string == state, "\(doctor)")
        #expect(doctor.status == (state == "problem" ? 7 : 0), "\(doctor)")
        guard let words else { return }
        let finding = check?["finding"]?.string ?? ""
        #expect(finding.contains(words), "\(finding)")
        #expect(
            finding.contains("‘\(minimum)’, the minimum-policy of \(Self.path)"), "\(finding)")
    }

    @Test func `doctor names the minimum if the hardware does not answer`() async throws {
        let file = try await AdministratorsFile(#"{"fixed": {"minimum-policy": "pin"}}"#)
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        let doctor = try await file.run("doctor", "--json", on: machine)
        let check = try doctor.json()["checks"]?.array?.first { $0["name"] == "policy" }
        #expect(check?["state"] == "warning", "\(doctor)")
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `a user's own minimum is a rule too`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        #expect(try await machine.run("config", "set", "minimum-policy", "pin").status == 0)
        #expect(try await machine.run("key", "create", "--policy", "none").status == 2)
        #expect(try await machine.run("key", "create", pins: ["2580"]).status == 0)
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `no text advises what a fixed setting forbids`() async throws {
        let advice = "--policy pin"
        let free = try await Machine(tcti: SoftwareTPM.current.tcti).run(
            "key", "create", "--policy", "biometry-any", "--json")
        #expect(free.status == 7 && free.output.contains(advice), "\(free)")
        let file = try await AdministratorsFile(
            #"{"fixed": {"minimum-policy": "biometry-any"}}"#)
        let bound = try await file.run(
            "key", "create", "--json", on: Machine(tcti: SoftwareTPM.current.tcti))
        #expect(bound.status == 7 && !bound.output.contains(advice), "\(bound)")
        #expect(try bound.json()["error"]?["recovery"]?.string?.isEmpty == false)

        try file.write(#"{"fixed": {"tcti": "device:/nonexistent/tpm0"}}"#)
        for command in [["doctor"], ["key", "create"]] {
            let outcome = try await file.run(command, on: Machine(tcti: nil), pins: ["258025"])
            #expect(outcome.status == 7, "\(outcome)")
            let text = outcome.output + outcome.errors
            #expect(!text.contains("--tcti"), "\(text)")
        }
    }

    // MARK: Files that are refused

    enum Fault: String, CaseIterable {
        case ownFile, ownDirectory, writableFile, writableDirectory, unreadable, hiddenDirectory,
            link
    }

    @Test(arguments: Fault.allCases)
    func `a file that root does not guard, or that cannot be read, ends every program with 2`(
        fault: Fault
    ) async throws {
        let file = try await AdministratorsFile(#"{"container": "all"}"#)
        let words: String
        switch fault {
        case .ownFile:
            try #require(chown(file.file, Self.nobody, Self.nobody) == 0)
            words = "\(Self.path) does not belong to root"
        case .ownDirectory:
            try #require(chown(file.folder, Self.nobody, Self.nobody) == 0)
            words = "/etc/latchkey does not belong to root"
        case .writableFile:
            try #require(chmod(file.file, 0o646) == 0)
            words = "other users can write \(Self.path)"
        case .writableDirectory:
            try #require(chmod(file.folder, 0o1777) == 0)
            words = "other users can write /etc/latchkey"
        case .unreadable:
            try #require(chmod(file.file, 0o600) == 0)
            words = "Permission denied"
        case .hiddenDirectory:
            try #require(chmod(file.folder, 0o700) == 0)
            words = "Permission denied"
        case .link:
            let target = "\(file.folder)/own.json"
            try #require(rename(file.file, target) == 0)
            try #require(chown(target, Self.nobody, Self.nobody) == 0)
            try #require(symlink("own.json", file.file) == 0)
            words = "/etc/latchkey/own.json does not belong to root"
        }
        for arguments in [["status"], ["config", "list"], ["config", "set", "client-id", "a"]] {
            let outcome = try await file.run(
                arguments, on: Machine(tcti: nil), as: Self.nobody)
            #expect(outcome.status == 2, "\(outcome)")
            #expect(outcome.errors.contains("Could not read \(Self.path): "), "\(outcome)")
            #expect(outcome.errors.contains(words), "\(outcome)")
        }
        for service in [Products.agent, Products.passkeys] {
            let outcome = try await file.run(
                on: Machine(tcti: nil), as: Self.nobody, program: service)
            #expect(outcome.status == 2, "\(outcome)")
            #expect(outcome.errors.contains(words), "\(outcome)")
        }
    }

    @Test(arguments: [
        ("{", "it is not a JSON object"), (#"{"client-id":"app",}"#, "column 20 is not JSON"),
        ("[]", "it is not a JSON object"),
        (#"{"endpont": "x"}"#, "did you mean ‘endpoint’?"),
        (#"{"fixed": ["endpoint"]}"#, "‘fixed’ is not an object of settings"),
        (#"{"fixed": {"endpont": "x"}}"#, "did you mean ‘endpoint’?"),
        (#"{"client-id": "a", "fixed": {"client-id": "b"}}"#, "‘client-id’ is set twice"),
        (#"{"fixed": {"allow-short-pin": "false"}}"#, "‘allow-short-pin’ is neither true nor"),
        (#"{"fixed": {"client-id": 7}}"#, "‘client-id’ is not a string"),
        (
            #"{"fixed": {"trusted-origins": "https://a.example"}}"#,
            "‘trusted-origins’ is fixed, and ‘endpoint’ is not"
        ),
        (#"{"fixed": {"minimum-policy": "strong"}}"#, "minimum-policy: ‘strong’ is not none"),
        (#"{"fixed": {"minimum-policy": ""}}"#, "minimum-policy: ‘’ is not none"),
        (#"{"fixed": {"container": ""}}"#, "container: ‘’ is not the name"),
        (#"{"fixed": {"endpoint": "id.example"}}"#, "endpoint: ‘id.example’ is neither"),
        (#"{"fixed": {"store": "~/x"}}"#, "store: ‘~/x’ is not an absolute path"),
        (#"{"store": "$HOME/x"}"#, "store: ‘$HOME/x’ is not an absolute path"),
    ])
    func `a malformed file is an error that names it`(text: String, words: String) async throws {
        let file = try await AdministratorsFile(text)
        let outcome = try await file.run("status", on: Machine(tcti: nil), as: Self.nobody)
        #expect(outcome.status == 2, "\(outcome)")
        #expect(outcome.errors.contains(words) && outcome.errors.contains(Self.path), "\(outcome)")
    }

    @Test func `no variable names another file`() async throws {
        let machine = try Machine(tcti: nil)
        let file = try await AdministratorsFile(#"{"fixed": {"client-id": "app"}}"#)
        let own = machine.directory.path(of: "etc")
        let outcome = try await file.run(
            "config", "get", "client-id", on: machine, as: Self.nobody,
            extra: [
                "XDG_CONFIG_DIRS": own, "LATCHKEY_CONFIG": "\(own)/config.json",
                "LATCHKEY_CLIENT_ID": "",
            ])
        #expect(outcome.output == "app\n", "\(outcome)")
    }

    @Test func `the user's file has no fixed settings`() async throws {
        let machine = try Machine(tcti: nil)
        #expect(try await machine.run("config", "set", "client-id", "a").status == 0)
        try Data(#"{"fixed": {}}"#.utf8).write(
            to: URL(filePath: machine.directory.path(of: "config/latchkey/config.json")))
        let outcome = try await machine.run("status")
        #expect(outcome.status == 2)
        #expect(outcome.errors.contains("‘fixed’ is not a setting"), "\(outcome)")
    }
}
