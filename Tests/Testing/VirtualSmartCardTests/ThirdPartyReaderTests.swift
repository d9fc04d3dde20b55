import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// The third-party PIV card in pcscd, with Yubico's and OpenSC's programs.
@Suite(
    .virtualYubiKey(.thirdPartyPIV()), .requires(program: "pkcs11-tool"),
    .requires(program: "openssl"))
struct ThirdPartyReaderTests {
    private static let signing = [
        "--login", "--pin", "123456", "--sign", "-m", "ECDSA", "--id", "01",
    ]
    private let tool = SystemProgram("yubico-piv-tool")

    @Test func `yubico-piv-tool sees version 5_7_0 without attestation`() async throws {
        #expect(try await tool.require(["-a", "status"]).contains("Version:\t5.7.0"))
        try await VirtualYubiKey.current.provision(.authentication)
        let isAttested = try await tool.result(of: ["-a", "attest", "-s", "9a"]).isSuccess
        #expect(!isAttested)
    }

    @Test(arguments: PKCS11Module.allCases)
    func `a P-256 key signs`(through module: PKCS11Module) async throws {
        try await VirtualYubiKey.current.provision(.authentication)
        try await module.expectSignature(keyID: "01")
    }

    @Test func `ykcs11 shows and uses P-384 and RSA keys without certificates`() async throws {
        try await tool.require(["-a", "generate", "-s", "9a", "-A", "RSA2048", "-o", "/dev/null"])
        try await tool.require(["-a", "generate", "-s", "9c", "-A", "ECCP384", "-o", "/dev/null"])
        let objects = try await PKCS11Module.ykcs11.run(["-O", "--type", "pubkey"])
        #expect(objects.contains("RSA 2048 bits"), "\(objects)")
        #expect(objects.contains("EC_POINT 384 bits"), "\(objects)")
        try await PKCS11Module.ykcs11.expectSignature(keyID: "01", mechanism: "SHA256-RSA-PKCS")
        // pkcs11-tool 0.23 cannot export a public key on P-384.
        let outcome = try await PKCS11Module.ykcs11.result(
            Self.signing.dropLast() + ["02"], input: [UInt8](repeating: 1, count: 48))
        #expect(outcome.isSuccess, "\(outcome.errors)")
    }

    @Test func `ykcs11 reports a slot that the card lacks as a device error`() async throws {
        let officer = [
            "--login", "--login-type", "so", "--so-pin", VirtualYubiKey.factoryManagementKey,
        ]
        // ykcs11 numbers 82 to 95 from 5.
        let outcome = try await PKCS11Module.ykcs11.result(
            officer + ["--keypairgen", "--id", "7", "--key-type", "EC:secp256r1"])
        #expect(
            !outcome.isSuccess && outcome.errors.contains("CKR_DEVICE_ERROR"), "\(outcome.text)")
    }

    @Test(
        .virtualYubiKey(.thirdPartyPIV(), touchTimeout: .milliseconds(200)),
        arguments: [TouchMode.deny, .wait])
    func `ykcs11 reports a missing touch as a device error`(_ mode: TouchMode) async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication, touchPolicy: .always)
        yubiKey.card.touch = mode
        let outcome = try await PKCS11Module.ykcs11.result(
            Self.signing, input: [UInt8](repeating: 1, count: 32))
        #expect(
            !outcome.isSuccess && outcome.errors.contains("CKR_DEVICE_ERROR"), "\(outcome.text)")
    }

    @Test(.requires(program: "python3")) func `C_Logout of ykcs11 leaves the card unlocked`()
        async throws
    {
        let card = try VirtualYubiKey.current.card
        try await VirtualYubiKey.current.provision(.authentication)
        // A second connection keeps the card powered.
        let observer = try CardObserver()
        try await PKCS11Module.ykcs11.logIn(andOut: false)
        let commands = card.statistics.commands
        try await PKCS11Module.ykcs11.logIn(andOut: false)
        let without = card.statistics.commands - commands
        try await PKCS11Module.ykcs11.logIn(andOut: true)
        #expect(card.statistics.commands == commands + 2 * without, "C_Logout sends no command")
        #expect(try observer.seesVerifiedPIN())
        #expect(try observer.signs(with: .authentication))
    }

    @Test func `a card that is removed at a chosen command of a slow listing works afterwards`()
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let card = yubiKey.card
        try await yubiKey.provision(.authentication)
        card.commandDelay = .milliseconds(30)
        let before = card.statistics.commands
        let start = ContinuousClock.now
        let objects = try await PKCS11Module.ykcs11.run(["-O"])
        let count = card.statistics.commands - before
        #expect(ContinuousClock.now - start > Duration.milliseconds(30 * count))
        #expect(objects.contains("Public key for PIV Authentication"), "\(objects)")
        // The last commands are no reads.
        for number in [2, count / 4, count / 2] {
            card.inject(CardFault(.removal, atCommand: number))
            let outcome = try await PKCS11Module.ykcs11.result(["-O"])
            #expect(!card.isInserted, "command \(number) of \(count)")
            #expect(outcome.text != objects, "command \(number) of \(count)")
            try await yubiKey.eject()
            try await yubiKey.insert()
        }
        card.commandDelay = .zero
        try await PKCS11Module.ykcs11.expectSignature(keyID: "01")
    }

    @Test func `an injected status word fails a command`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication)
        // pkcs11-tool signs again with C_SignUpdate if C_Sign fails.
        for number in 1...2 {
            yubiKey.card.inject(
                CardFault(.status(.internalError), atCommand: number, instruction: 0x87))
        }
        let outcome = try await PKCS11Module.ykcs11.result(
            Self.signing, input: [UInt8](repeating: 1, count: 32))
        #expect(!outcome.isSuccess)
        try await PKCS11Module.ykcs11.expectSignature(keyID: "01")
    }
}
