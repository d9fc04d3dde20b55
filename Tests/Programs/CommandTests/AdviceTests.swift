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
        .forceDisable: "needs a server that refuses the removal; DisableTests does what it says",
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
            try await row.follow(Advised(machine: machine.at(server)))
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
}

/// Yubico's module, where Debian installs it.
private let yubicoModule = "/usr/lib/x86_64-linux-gnu/libykcs11.so"
