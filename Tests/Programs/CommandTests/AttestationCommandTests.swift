import Crypto
import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// Proofs to a server, with the tool, the server, the presence broker, fprintd, the bus and the TPM
/// as processes.
@Suite(
    .softwareTPM(.endorsementCertificate), .virtualFinger, .requires(program: "swtpm_setup"),
    .requires(program: "tpm2-abrmd"), .requires(program: "dbus-daemon"),
    .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"), .requires(program: "python3"), .timeLimit(.minutes(15)))
struct AttestationCommandTests {
    static let token = "a-token-of-the-servers-operator"

    /// The configuration of a server that trusts the test's TPM.
    static func configuration(_ require: String, in directory: TemporaryDirectory) throws
        -> [String: Any]
    {
        let tpm = try SoftwareTPM.current
        let anchors = directory.path(of: "anchors/simulated")
        for (folder, file) in [
            ("roots", tpm.rootCertificatePath),
            ("intermediates", tpm.stateDirectory + "/ca/issuercert.pem"),
        ] {
            try FileManager.default.createDirectory(
                atPath: "\(anchors)/\(folder)", withIntermediateDirectories: true)
            try FileManager.default.copyItem(atPath: file, toPath: "\(anchors)/\(folder)/ca.pem")
        }
        let digest = SHA256.hash(data: Data(token.utf8)).map { String(format: "%02x", $0) }
            .joined()
        return [
            "attestation": [
                "require": require, "anchors": directory.path(of: "anchors"),
                "accept_simulated": true,
                "broker_token_digest": digest,
            ]
        ]
    }

    /// A machine with a presence broker and a finger, at a server.
    static func with(
        _ require: String, _ body: (Machine, VirtualFingerprintReader) async throws -> Void
    ) async throws {
        try await withBroker(require) { machine, reader, _ in try await body(machine, reader) }
    }

    private static func withBroker(
        _ require: String,
        _ body: (Machine, VirtualFingerprintReader, PresenceBrokerProcess) async throws -> Void
    ) async throws {
        let (reader, tpm) = (try VirtualFingerprintReader.current, try SoftwareTPM.current)
        try await reader.enroll(as: "mine", for: NSUserName())
        let manager = try await ResourceManager(tpm, busAddress: reader.busAddress)
        try await PresenceBrokerProcess.withRunning(
            URL(filePath: Products.presenceBroker.string), tcti: ResourceManager.tcti,
            reader: reader
        ) { broker in
            let machine = try Machine(tcti: ResourceManager.tcti)
            try await IdentityProcess.with(
                configuration(require, in: machine.directory)
            ) {
                server in
                var machine = try machine.at(server)
                machine.environment.merge(reader.environment) { $1 }
                try await body(machine, reader, broker)
            }
        }
        await manager.end()
    }

    /// The steps of the article Recovery.
    @Test(
        .enabled(if: geteuid() == 0, "enrolling a broker needs root"),
        .requires(program: "tpm2_clear"))
    func `after the TPM was cleared, the broker gets a new key and is enrolled again`()
        async throws
    {
        try await Self.withBroker("none") { machine, _, broker in
            let file = machine.directory.path(of: "token")
            try Data("\(Self.token)\n".utf8).write(to: URL(filePath: file))
            try #require(chmod(file, 0o600) == 0)
            let enrol = ["broker", "enrol", "--token-file", file, "--json"]
            let create = ["key", "create", "--policy", "pin", "--json"]
            let before = try succeed(await machine.run(enrol))["name"]
            _ = try succeed(await machine.run(create, pins: ["258025"]))
            await broker.stop()
            let password = try #require(SoftwareTPM.current.lockoutPassword)
            let cleared = try await machine.run(
                ["-c", "lockout", password], extra: ["TPM2TOOLS_TCTI": ResourceManager.tcti],
                program: "/usr/bin/tpm2_clear")
            #expect(cleared.status == 0, "\(cleared)")
            try await broker.start()

            let doctor = try await machine.run("doctor", "--json")
            #expect(doctor.status == 8, "\(doctor)")
            let checks = try doctor.json()["checks"]?.array
            let check = checks?.first { $0["name"] == "broker" }
            #expect(check?["state"] == "problem", "\(doctor)")
            #expect(
                check?["finding"]?.string?.contains("this TPM was cleared") == true, "\(doctor)")
            #expect(check?["advice"]?.string?.contains("authority.json") == true, "\(doctor)")
            let empty = checks?.first { $0["name"] == "lockout-password" }
            #expect(empty?["state"] == "warning", "\(doctor)")

            await broker.stop()
            for name in ["authority.json", "authority.secret"] {
                try FileManager.default.removeItem(atPath: broker.stateDirectory.path(of: name))
            }
            try await broker.start()
            #expect(try await machine.run(enrol).status == 8, "root's store is of the old TPM")
            #expect(try await machine.run("store", "reset", "--yes").status == 0)
            let after = try succeed(await machine.run(enrol))["name"]
            #expect(after != nil && after != before)
            _ = try succeed(await machine.run(create, pins: ["135724"]))
        }
    }

    private func run(
        _ machine: Machine, _ arguments: String..., at reader: VirtualFingerprintReader
    ) async throws -> Outcome {
        async let shown: Void = reader.present(.finger("mine"))
        let outcome = try await machine.run(arguments)
        try await shown
        return outcome
    }

    private func succeed(_ outcome: Outcome) throws -> [String: JSON] {
        #expect(outcome.status == 0, "\(outcome.errors)")
        return try outcome.json()
    }

    @Test(.enabled(if: geteuid() == 0, "enrolling a broker needs root"))
    func
        `a server that requires a finger accepts it after the broker is enrolled, and nothing else`()
        async throws
    {
        try await Self.with("finger") { machine, reader in
            #expect(try await machine.run("login").status == 0)
            // A key with a PIN cannot meet the requirement. The tool says so before it makes one.
            let weak = try await machine.run(
                "enable", "--policy", "pin", "--json", pins: ["258025"])
            #expect(weak.status == 9)
            #expect(weak.output.contains("enable --policy biometry-any"), "\(weak.output)")
            #expect(
                try succeed(await machine.run("key", "list", "--all", "--json"))["keys"]?.array?
                    .isEmpty == true)

            // The server does not know the broker.
            let unknown = try await run(
                machine, "enable", "--policy", "biometry-any", "--json", at: reader)
            #expect(unknown.status == 9)
            #expect(unknown.output.contains("sudo latchkey broker enrol"), "\(unknown.output)")
            #expect(
                unknown.errors.contains("identifies this machine permanently"), "\(unknown.errors)")

            // Only the operator's token enrols it.
            let file = machine.directory.path(of: "token")
            for (token, status) in [("a-token-that-somebody-guessed", Int32(9)), (Self.token, 0)] {
                try Data("\(token)\n".utf8).write(to: URL(filePath: file))
                try #require(chmod(file, 0o644) == 0)
                let readable = try await machine.run("broker", "enrol", "--token-file", file)
                #expect(readable.status == 2)
                #expect(
                    readable.errors.contains("its group or others have rights to it")
                        && readable.errors.contains("chmod 600"), "\(readable.errors)")
                try #require(chmod(file, 0o600) == 0)
                let enrolled = try await machine.run(
                    "broker", "enrol", "--token-file", file, "--json")
                #expect(enrolled.status == status, "\(enrolled.output)\(enrolled.errors)")
                guard status == 0 else {
                    let error = try enrolled.json()["error"]
                    #expect(
                        error?["message"]?.string?.contains("the enrolment token in \(file)")
                            == true, "\(enrolled)")
                    #expect(error?["recovery"]?.string?.contains("log in") == false)
                    continue
                }
                let printed = try await machine.run(
                    "--print-name", program: Products.presenceBroker)
                #expect(
                    try enrolled.json()["name"]?.string
                        == printed.output.trimmingCharacters(in: .newlines))
            }

            let enabled = try succeed(
                await run(machine, "enable", "--policy", "biometry-any", "--json", at: reader))
            #expect(enabled["enforcedPresence"]?.string == "finger")
            let keys = try succeed(await machine.run("key", "list", "--all", "--json"))["keys"]?
                .array
            #expect(keys?.first?["isAttestable"] == .bool(true))
            #expect(try await machine.run("logout", "--keep-biometric").status == 0)
            let authenticated = try await run(machine, "authenticate", at: reader)
            #expect(authenticated.status == 0, "\(authenticated.errors)")

            let shown = try succeed(await machine.run("attestation", "show", "--json"))
            #expect(shown["endorsementCertificates"]?.array?.isEmpty == false)
            #expect(shown["issuers"]?.array?.first?["expiresAt"]?.string != nil)
            let doctor = try await machine.run("doctor", "--json").json()["checks"]?.array
            let check = try #require(doctor?.first { $0["name"]?.string == "attestation" })
            #expect(check["state"]?.string == "ok", "\(check)")
        }
    }

    @Test(.enabled(if: geteuid() == 0, "the test runs the tool as another user"))
    func `only root enrols a broker`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        chmod(machine.directory.path, 0o755)
        let denied = try await machine.run(
            "--reuid=65534", "--regid=65534", "--clear-groups", Products.latchkey.string, "broker",
            "enrol",
            "--token-file", "/dev/null", program: "/usr/bin/setpriv")
        #expect(denied.status == 1)
        #expect(denied.errors.contains("sudo latchkey broker enrol"), "\(denied.errors)")
    }

    @Test func `enrol, show and forget manage the attestation key of a server`() async throws {
        try await Self.with("none") { machine, _ in
            let early = try await machine.run("attestation", "enrol", "--json")
            #expect(early.status == 6, "\(early.output)")
            #expect(try await machine.run("attestation", "forget").status == 6)
            #expect(try await machine.run("login").status == 0)
            let enrolled = try succeed(await machine.run("attestation", "enrol", "--json"))
            #expect(enrolled["expiresAt"]?.string != nil)
            let text = try await machine.run("attestation", "show")
            #expect(
                text.output.contains("certified until") && text.output.contains("BEGIN CERTIFICATE")
            )
            #expect(try await machine.run("attestation", "forget").status == 0)
            #expect(
                try succeed(await machine.run("attestation", "show", "--json"))["issuers"]?.array?
                    .isEmpty == true)
        }
    }

    @Test func `verify accepts what attest prints, once for its challenge, and names the refusal`()
        async throws
    {
        try await Self.with("none") { machine, _ in
            #expect(try await machine.run("login").status == 0)
            _ = try succeed(await machine.run("attestation", "enrol", "--json"))
            let issuer = try #require(machine.environment["LATCHKEY_ENDPOINT"])
            let made = try succeed(await machine.run("key", "create", "--policy", "none", "--json"))
            #expect(made["isAttestable"] == .bool(true))
            let kid = try #require(made["id"]?.string)
            let challenge = "AAECAwQFBgcICQ"
            let statement = try await machine.run(
                "key", "attest", kid, "--challenge", challenge, "--issuer", issuer, "--form",
                "webauthn", "--json")
            let attested = try succeed(statement)
            #expect(
                attested["endorsementCertificates"] == nil && attested["type"]?.string == "certify")
            let json = statement.output
            // The server's authority is the last certificate of the statement.
            let anchors = machine.directory.path(of: "verify")
            try FileManager.default.createDirectory(
                atPath: anchors + "/simulated/roots", withIntermediateDirectories: true)
            let authority = try #require(attested["certificates"]?.array?.last?.string)
            func decoded(_ text: String) throws -> Data {
                let base64 = text.replacing("-", with: "+").replacing("_", with: "/")
                let padding = String(repeating: "=", count: (4 - base64.utf8.count % 4) % 4)
                return try #require(Data(base64Encoded: base64 + padding))
            }
            try decoded(authority)
                .write(to: URL(filePath: anchors + "/simulated/roots/authority.der"))

            let fixed = [
                "attestation", "verify", "--anchors", anchors, "--issuer", issuer, "--kid", kid,
                "--json",
                "--accept-simulated",
            ]
            let rows: [([String], Int32, String?)] = [
                (["--challenge", challenge], 0, nil),
                (["--challenge", "BBECAwQFBgcICQ"], 9, "wrongChallenge"),
                (["--challenge", challenge, "--require", "presence"], 9, "insufficientPresence"),
            ]
            for (more, status, code) in rows {
                let outcome = try await machine.run(fixed + more, input: json)
                #expect(outcome.status == status, "\(outcome.output)\(outcome.errors)")
                #expect(try outcome.json()["code"]?.string == code)
                let result = try outcome.json()
                #expect(result["accepted"] == .bool(code == nil))
                try RecordedInterfaceTests.expectRecorded(
                    result, as: (code == nil ? "" : "refusal of ") + "attestation verify")
                #expect((result["detail"]?.string?.isEmpty == false) == (code != nil), "\(result)")
                if code == nil {
                    #expect(result["isSimulated"] == .bool(true))
                    #expect(result["approvalKeys"]?.array?.isEmpty == true)
                    let der = try decoded(#require(attested["certificates"]?.array?.first?.string))
                    let serial = try #require(result["certificateSerial"]?.string)
                    #expect(serial.count >= 16)
                    let bytes = Data(
                        try stride(from: 0, to: serial.utf8.count, by: 2).map {
                            try #require(UInt8(serial.dropFirst($0).prefix(2), radix: 16))
                        })
                    #expect(der.prefix(64).range(of: bytes) != nil)
                } else {
                    #expect(result["isSimulated"] == .null && result["approvalKeys"] == .null)
                }
            }
            // Without --json, the key to compare with the registered one.
            let exported = try await machine.require("key", "export", kid, "--format", "pem")
            let text = try await machine.run(
                fixed.filter { $0 != "--json" } + ["--challenge", challenge], input: json)
            #expect(text.output.contains(exported.output), "\(text.output)")
            // No type of the decoder reaches the user.
            for (input, cause) in [
                ("no JSON", "the text is not valid JSON"), ("{}", "‘format’ is missing"),
                (#"{"format":1}"#, "‘format’ has the wrong type"),
                (#"{"format":"tpm","presence":{"version":null}}"#, "‘presence.version’ is null"),
                (#"{"format":"tpm","format":"piv"}"#, "‘format’ is repeated"),
            ] {
                let odd = try await machine.run(
                    fixed.filter { $0 != "--json" } + ["--challenge", challenge], input: input)
                #expect(odd.status == 9)
                #expect(
                    odd.output
                        == "Refused: malformed: the attestation is not the expected JSON: \(cause)\n"
                )
            }
            let simulated = try await machine.run(
                Array(fixed.dropLast()) + ["--challenge", challenge], input: json)
            #expect(try simulated.status == 9 && simulated.json()["code"]?.string == "simulated")
        }
    }

    @Test func `the refusals of attest and verify name the next step`() async throws {
        try await Self.with("none") { machine, _ in
            #expect(try await machine.run("login").status == 0)
            _ = try succeed(await machine.run("attestation", "enrol", "--json"))
            let issuer = try #require(machine.environment["LATCHKEY_ENDPOINT"])
            let made = try succeed(await machine.run("key", "create", "--policy", "none", "--json"))
            let kid = try #require(made["id"]?.string)
            let attest = ["key", "attest", kid, "--challenge", "AAECAwQFBgcICQ"]
            let local = try await machine.run(attest + ["--form", "acme"])
            #expect(local.status == 1)
            #expect(
                local.errors.contains(
                    "Name a server where this TPM is enrolled. Set it with --issuer"),
                "\(local.errors)")

            // A mistyped server leaves no key, in no form.
            for form in ["creation", "certify", "webauthn", "acme"] {
                let mistyped = try await machine.run(
                    attest + ["--form", form, "--issuer", issuer + "/x"])
                #expect(mistyped.status == 1)
                #expect(
                    mistyped.errors.contains("no certified attestation key for ‘\(issuer)/x’"),
                    "\(mistyped.errors)")
            }
            let shown = try await machine.run("attestation", "show", "--json")
            #expect(try shown.json()["issuers"]?.array?.count == 1)
            let certificates = try #require(
                shown.json()["endorsementCertificates"]?.array?.count)
            let endorsed = try await machine.run(attest + ["--endorsement"])
            #expect(endorsed.output.contains("Endorsement:      \(certificates)\n"))
            #expect(
                endorsed.output.matches(of: /BEGIN CERTIFICATE/).count == certificates)

            let anchors = machine.directory.path(of: "none")
            try FileManager.default.createDirectory(
                atPath: anchors, withIntermediateDirectories: true)
            let rows: [([String], String)] = [
                (
                    [],
                    "there is no attestation object: the attestation key has no certificate"
                ),
                (
                    ["--form", "acme", "--issuer", issuer],
                    "untrustedAttestationKey: the certificate is not trusted: no certificate is known for"
                ),
            ]
            for (form, refusal) in rows {
                let attested = try await machine.run(attest + form + ["--json"])
                #expect(attested.status == 0, "\(attested.errors)")
                let verdict = try await machine.run(
                    [
                        "attestation", "verify", "--anchors", anchors, "--challenge",
                        "AAECAwQFBgcICQ",
                    ],
                    input: attested.output)
                #expect(verdict.status == 9)
                #expect(verdict.output.contains(refusal), "\(verdict.output)\(verdict.errors)")
            }
        }
    }
}
