import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// The secrets of a PIV card other than its PIN, through ykcs11: the management key and the PUK.
@Suite(
    .enabled(if: FileManager.default.fileExists(atPath: ykcs11), "needs ykcs11"),
    .requires(program: "yubico-piv-tool"), .timeLimit(.minutes(15)))
struct ManagementKeyCommandTests {
    private static let otherKey = "112233445566778811223344556677881122334455667788"

    private func machine() throws -> Machine {
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment["LATCHKEY_TOKEN"] = "pkcs11:?module-path=\(ykcs11)"
        return machine
    }

    /// Changes the card like `ykman piv access change-management-key --generate --protect`: sets a
    /// new key, stores it under the PIN (object 5FC109), and records the protection in ADMIN DATA.
    private func protectManagementKey(_ machine: Machine) async throws {
        for (id, content) in [("0x5fff00", "8003810102"), ("0x5fc109", "881a8918\(Self.otherKey)")]
        {
            let path = machine.directory.path(of: id)
            try Data(content.utf8).write(to: URL(filePath: path))
            try await tool("-a", "write-object", "--id", id, "-f", "hex", "-i", path)
        }
        try await tool("-a", "set-mgm-key", "-n", Self.otherKey)
    }

    private func tool(_ arguments: String...) async throws {
        try await program("yubico-piv-tool", ["-r", SmartCardReader.name(ofSlot: 0)] + arguments)
    }

    private func expectRefusal(
        _ machine: Machine, _ pins: [String], _ words: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let outcome = try await machine.run("key", "create", pins: pins)
        #expect(outcome.status == 4, "\(outcome.errors)", sourceLocation: sourceLocation)
        #expect(outcome.errors.contains(words), "\(outcome.errors)", sourceLocation: sourceLocation)
    }

    @Test(.virtualYubiKey) func `the PIN is accepted in place of a protected management key`()
        async throws
    {
        let machine = try machine()
        try await protectManagementKey(machine)
        try await expectRefusal(
            machine, [VirtualYubiKey.factoryManagementKey, CardProfile.defaultPIN],
            "Enter the card's PIN.")
        let made = try await machine.run(
            "key", "create", pins: [CardProfile.defaultPIN, CardProfile.defaultPIN])
        #expect(made.status == 0, "\(made.errors)")
        let byKey = try await machine.run(
            "key", "create", pins: [Self.otherKey, CardProfile.defaultPIN])
        #expect(byKey.status == 0, "\(byKey.errors)")
        let changed = try await machine.run("token", "pin", "--so", pins: [])
        #expect(
            changed.status == 1 && changed.errors.contains("change-management-key --protect"),
            "\(changed.errors)")
    }

    @Test(.virtualYubiKey) func `the PIN is refused in place of an unprotected management key`()
        async throws
    {
        let machine = try machine()
        let words = "the management key is wrong"
        try await expectRefusal(machine, [CardProfile.defaultPIN, CardProfile.defaultPIN], words)
        try await expectRefusal(
            machine, [CardProfile.defaultPIN, CardProfile.defaultPIN],
            "This card does not accept the PIN in its place."
        )
        try await expectRefusal(
            machine, ["no key of hexadecimal digits", CardProfile.defaultPIN], words)
        try await expectRefusal(machine, [Self.otherKey, CardProfile.defaultPIN], words)
    }

    @Test(.virtualYubiKey(.thirdPartyPIV(serialNumber: 7)))
    func `a wrong 3DES key for a card with version 5.7 is not reported as an AES key`() async throws
    {
        let machine = try machine()
        let report = try await machine.run("doctor")
        #expect(report.status == 0 && !report.output.contains("AES"), "\(report.output)")
        try await expectRefusal(
            machine, [Self.otherKey, CardProfile.defaultPIN], "the management key is wrong")
    }

    @Test(.virtualYubiKey(CardProfile(firmware: Firmware(5, 7, 1))))
    func `an AES key is reported by doctor, and before a prompt`() async throws {
        let machine = try machine()
        let report = try await machine.run("doctor")
        #expect(report.status == 1 && report.output.contains("is an AES key"), "\(report.output)")
        let made = try await machine.run("key", "create", "--json", pins: [])
        #expect(try made.json()["error"]?["code"] == "unsupported", "\(made.errors)")
        #expect(made.errors.contains("2.3.0 or newer"))
    }

    @Test(.virtualYubiKey)
    func `a wrong PUK reports the attempts left, and a blocked PUK is not sent`() async throws {
        let machine = try machine()
        for _ in 0..<3 {
            #expect(try await machine.run("token", "pin", pins: ["111111", "222222"]).status != 0)
        }
        let report = try await machine.run("doctor")
        #expect(
            report.status == 5 && report.output.contains("latchkey token pin --unblock"),
            "\(report.output)")
        func unblock(_ pins: String...) async throws -> Outcome {
            try await machine.run(["token", "pin", "--unblock", "--json"], pins: pins)
        }
        for left in [2, 1] {
            let wrong = try await unblock("00000000", "222222")
            #expect(
                wrong.status == 4 && wrong.errors.contains("the PUK is wrong"), "\(wrong.errors)")
            #expect(try wrong.json()["error"]?["attemptsLeft"] == .number(Double(left)))
        }
        #expect(try await unblock("00000000", "222222").status == 5)
        let blocked = try await unblock()
        #expect(
            blocked.status == 5 && blocked.errors.contains("the PUK is blocked"),
            "\(blocked.errors)")
        for outcome in [
            blocked, try await machine.run("doctor"),
            try await machine.run("token", "pin", pins: []),
            try await machine.run("token", "pin", "--init", pins: []),
        ] {
            #expect(outcome.status == 5)
            let text = outcome.output + outcome.errors
            #expect(text.contains("ykman piv reset") && !text.contains("--unblock"), "\(text)")
        }
    }
}

private let ykcs11 = "/usr/lib/x86_64-linux-gnu/libykcs11.so"
