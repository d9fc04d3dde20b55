import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyServices
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// The next step of each error, followed literally: a test puts the machine into the state, runs the
/// commands that the advice names, and expects that the command then succeeds.
@Suite(.timeLimit(.minutes(15)))
struct AdviceTests {
    /// Actions that this suite does not follow, with the reason.
    private static let elsewhere: [Recovery.Action: String] = [
        .reportDiagnosis: "a person reports the output",
        .forwardLogin: "needs two machines with the port free; DeviceLoginTests checks the text",
        .restartReader: "needs systemd and a fingerprint reader",
        .useModuleHere: "only an app passes a token's key to OpenSSL",
        .listSSHKeys: "only if another process removes the key at the same time",
        .showAttestation: "after it, a person asks the server's operator",
    ]

    @Test(.softwareTPM, .requires(program: "tpm2_changeauth"), arguments: AdviceRow.ofTheTPM)
    func `the advice about a TPM leads to success`(_ row: AdviceRow) async throws {
        try await row.follow(Advised(machine: Machine(tcti: SoftwareTPM.current.tcti)))
    }

    @Test(
        .softwareTPM, .requires(program: "softhsm2-util"), .requires(program: "pkcs11-tool"),
        arguments: AdviceRow.ofTokens)
    func `the advice about a token leads to success`(_ row: AdviceRow) async throws {
        let (machine, token) = try await Machine.withToken()
        try await row.follow(Advised(machine: machine))
        withExtendedLifetime(token) {}
    }

    @Test(
        .virtualYubiKey,
        .enabled(if: FileManager.default.fileExists(atPath: yubicoModule), "needs ykcs11"),
        arguments: AdviceRow.ofCards)
    func `the advice about a card leads to success`(_ row: AdviceRow) async throws {
        try await row.follow(Advised(machine: Self.cardMachine))
    }

    @Test(
        .virtualYubiKey(.thirdPartyPIV(serialNumber: 7)),
        .enabled(if: FileManager.default.fileExists(atPath: yubicoModule), "needs ykcs11"),
        arguments: AdviceRow.ofSmallCards)
    func `the advice about a card with few slots leads to success`(_ row: AdviceRow) async throws {
        try await row.follow(Advised(machine: Self.cardMachine))
    }

    private static var cardMachine: Machine {
        get throws {
            var machine = try Machine(tcti: "device:/nonexistent/tpm")
            machine.environment["LATCHKEY_TOKEN"] = "pkcs11:?module-path=\(yubicoModule)"
            return machine
        }
    }

    @Test(.softwareTPM, .requires(program: "python3"), arguments: AdviceRow.ofServers)
    func `the advice about a server leads to success`(_ row: AdviceRow) async throws {
        try await Machine.withServer { try await row.follow(Advised(machine: $0)) }
    }

    @Test(
        .softwareTPM(.endorsementCertificate), .requires(program: "swtpm_setup"),
        .requires(program: "python3"), arguments: AdviceRow.ofCertifiedTPMs)
    func `the advice about a certified TPM leads to success`(_ row: AdviceRow) async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let configuration = try AttestationCommandTests.configuration(
            "none", in: machine.directory)
        try await IdentityProcess.with(configuration) { server in
            var machine = machine
            machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
            machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
            machine.environment["BROWSER"] = try ScriptedBrowser(
                user: server.users[0], in: machine.directory
            ).path
            try await row.follow(Advised(machine: machine))
        }
    }

    @Test(
        .softwareTPM(.endorsementCertificate), .virtualFinger, .requires(program: "swtpm_setup"),
        .requires(program: "tpm2-abrmd"), .requires(program: "dbus-daemon"),
        .requires(program: "fprintd-enroll"), .requires(program: "python3"),
        .enabled(if: geteuid() == 0, "enrolling a broker needs root"),
        arguments: AdviceRow.ofFingers.map { ($0.key, $0.value) })
    func `the advice about a finger leads to success`(_ requirement: String, _ row: AdviceRow)
        async throws
    {
        try await AttestationCommandTests.with(requirement) { machine, _ in
            try await row.follow(Advised(machine: machine))
        }
    }

    @Test func `each action is followed, or has a reason why not`() {
        let rows =
            AdviceRow.ofTheTPM + AdviceRow.ofTokens + AdviceRow.ofCards + AdviceRow.ofSmallCards
            + AdviceRow.ofServers + AdviceRow.ofCertifiedTPMs + AdviceRow.ofFingers.map(\.value)
        let followed = Set(rows.flatMap(\.actions))
        for action in Recovery.Action.allCases {
            #expect(followed.contains(action) == (Self.elsewhere[action] == nil), "\(action)")
        }
    }

    /// `commands.txt` has the commands and options of the tool; ``RecordedInterfaceTests`` compares
    /// it with the tool.
    @Test func `each command that a message names exists, with its options`() throws {
        let interface = try RecordedCommands()
        var count = 0
        for (place, line) in try SourceLines.all() {
            for command in line.matches(of: /‘(?:sudo )?latchkey ([^’]+)/) {
                count += 1
                let fault = interface.fault(of: command.output.1)
                #expect(fault == nil, "\(place): \(command.output.0)")
            }
        }
        #expect(count > 100)
    }

    /// The commands of the advice that name no command of the tool.
    @Test(
        .softwareTPM, .serialized, .requires(program: "tpm2_changeauth"),
        .enabled(if: geteuid() == 0, "the commands write to /run"), arguments: [false, true])
    func `the storage root key of an owner with a password is created as advised`(
        inDoctor: Bool
    ) async throws {
        let tpm = try SoftwareTPM.current
        var advised = Advised(machine: try Machine(tcti: tpm.tcti))
        advised.typed = "an owner password"
        try await program(
            "tpm2_changeauth", ["-c", "owner", advised.typed],
            environment: ["TPM2TOOLS_TCTI": tpm.tcti])
        let create = ["key", "create", "--policy", "none"]
        var command: String
        if inDoctor {
            let checks = try await advised.machine.run("doctor", "--json").json()["checks"]?.array
            let check = try #require(checks?.first { $0["name"] == "srk" })
            command = try #require(check["advice"]?.string)
        } else {
            command = try await advised.advice(of: create, status: 7)
            // “For a TPM other than the machine's, add -T and its TCTI.”
            advised.machine.environment["TPM2TOOLS_TCTI"] = tpm.tcti
        }
        command = String(command[try #require(command.firstRange(of: "sudo ")).lowerBound...])
            .replacing(/\. For a TPM .*$/, with: "")
        defer { unlink("/run/latchkey-srk.context") }
        try await advised.shell(command)
        try await flush(tpm)
        try await advised.succeed(create)
    }

    @Test(.softwareTPM, .requires(program: "tpm2_createprimary"))
    func `the password of a storage root key is removed as advised`() async throws {
        let tpm = try SoftwareTPM.current
        var advised = Advised(machine: try Machine(tcti: tpm.tcti))
        let context = advised.machine.directory.path(of: "srk")
        for (name, arguments) in [
            (
                "tpm2_createprimary",
                [
                    "-Q", "-C", "o", "-g", "sha256", "-G", "ecc256:aes128cfb", "-p", "secret", "-a",
                    "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|decrypt",
                    "-c", context,
                ]
            ),
            ("tpm2_evictcontrol", ["-Q", "-C", "o", "-c", context, "0x81000001"]),
        ] {
            try await program(name, arguments, environment: ["TPM2TOOLS_TCTI": tpm.tcti])
        }
        let create = ["key", "create", "--policy", "none"]
        let advice = try await advised.advice(of: create, status: 7)
        let command = advice[try #require(advice.firstRange(of: "sudo ")).lowerBound...]
        advised.machine.environment["TPM2TOOLS_TCTI"] = tpm.tcti
        try await advised.shell(String(command))
        try await flush(tpm)
        try await advised.succeed(create)
    }

    /// Flushes the objects of tpm2-tools, as a resource manager does at the end of a program.
    private func flush(_ tpm: SoftwareTPM) async throws {
        try await program(
            "tpm2_flushcontext", ["--transient-object"], environment: ["TPM2TOOLS_TCTI": tpm.tcti])
    }
}

/// Yubico's module, where Debian installs it.
private let yubicoModule = "/usr/lib/x86_64-linux-gnu/libykcs11.so"
