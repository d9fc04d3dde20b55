import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// Through pcscd, with programs that take the card for a YubiKey.
@Suite(.virtualYubiKey, .requires(program: "pkcs11-tool"), .requires(program: "openssl"))
struct ReaderTests {
    private let tool = SystemProgram("yubico-piv-tool")

    @Test func `yubico-piv-tool and OpenSC see a YubiKey`() async throws {
        let status = try await tool.require(["-a", "status"])
        #expect(status.contains("Version:\t5.4.3"))
        #expect(status.contains("Serial Number:\t12345678"))
        #expect(status.contains("PIN tries left:\t3"))
        let name = try await SystemProgram("opensc-tool").require(["-r", SmartCardReader.name(ofSlot: 0), "-n"])
        #expect(name.contains("Personal Identity Verification Card") || name.contains("PIV-II"))
        #expect(try await PKCS11Module.ykcs11.run(["-L"]).contains("YubiKey PIV #12345678"))
    }

    @Test(arguments: PKCS11Module.allCases)
    func `a key made by yubico-piv-tool signs`(through module: PKCS11Module) async throws {
        try await VirtualYubiKey.current.provision(.authentication)
        try await module.expectSignature(keyID: "01")
    }

    @Test func `ykcs11 makes a key, signs with it, and attests it`() async throws {
        try await PKCS11Module.ykcs11.run(
            [
                "--login", "--login-type", "so", "--so-pin", VirtualYubiKey.factoryManagementKey, "--keypairgen",
                "--id", "1", "--key-type", "EC:secp256r1",
            ])
        try await PKCS11Module.ykcs11.expectSignature(keyID: "01")
        let objects = try await PKCS11Module.ykcs11.run(["-O"])
        #expect(objects.contains("X.509 Certificate for PIV Attestation 9a"))
    }

    @Test func `wrong PINs block, and the PUK unblocks`() async throws {
        try await VirtualYubiKey.current.provision(.authentication)
        for answer in ["2 tries left", "1 tries left", "Pin code blocked"] {
            let (output, errors, isSuccess) = try await tool.result(of: ["-a", "verify-pin", "-P", "111111"])
            #expect(!isSuccess)
            #expect((output + errors).contains(answer), "\(output)\(errors)")
        }
        let (_, refusal, isSuccess) = try await PKCS11Module.ykcs11.result(["--login", "--pin", "123456", "-O"])
        #expect(!isSuccess && refusal.contains("CKR_PIN_LOCKED"))
        try await tool.require(["-a", "unblock-pin", "-P", "12345678", "-N", "222222"])
        try await PKCS11Module.ykcs11.expectSignature(keyID: "01", pin: "222222")
    }

    @Test(arguments: PKCS11Module.allCases)
    func `slot 9c wants the PIN for each signature`(through module: PKCS11Module) async throws {
        try await VirtualYubiKey.current.provision(.signature)
        let objects = try await module.run(["--login", "--pin", "123456", "-O", "--type", "privkey"])
        #expect(objects.contains("Always authenticate") || objects.contains("always authenticate"))
        try await module.expectSignature(keyID: "02")
    }

    @Test func `a touch is waited for`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication, touchPolicy: .always)
        yubiKey.card.touch = .wait
        async let signature: Void = PKCS11Module.ykcs11.expectSignature(keyID: "01")
        try await yubiKey.waitUntilTouchIsWanted()
        #expect(yubiKey.card.press())
        try await signature
    }

    @Test(.virtualYubiKey(touchTimeout: .milliseconds(200)), arguments: [TouchMode.deny, .wait])
    func `without a touch nothing is signed`(_ mode: TouchMode) async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication, touchPolicy: .always)
        yubiKey.card.touch = mode
        let (_, errors, isSuccess) = try await PKCS11Module.ykcs11.result(
            ["--login", "--pin", "123456", "--sign", "-m", "ECDSA", "--id", "01"],
            input: [UInt8](repeating: 1, count: 32))
        #expect(!isSuccess && errors.contains("CKR_USER_NOT_LOGGED_IN"))
        yubiKey.card.touch = .auto
        try await PKCS11Module.ykcs11.expectSignature(keyID: "01")
    }

    @Test func `the chain of an attestation leads to the authority`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.keyManagement, pinPolicy: .always, touchPolicy: .cached)
        try await TemporaryDirectory.withDirectory { directory in
            let (root, device, attestation) = (
                directory.path(of: "root.pem"), directory.path(of: "device.pem"), directory.path(of: "attestation.pem")
            )
            try Data(yubiKey.authority.rootCertificatePEM.utf8).write(to: URL(filePath: root))
            try await tool.require(["-a", "read-certificate", "-s", "f9", "-o", device])
            try await tool.require(["-a", "attest", "-s", "9d", "-o", attestation])
            let openssl = SystemProgram("openssl")
            let verdict = try await openssl.require(
                ["verify", "-CAfile", root, "-untrusted", device, attestation])
            #expect(verdict.contains("attestation.pem: OK"))
            let text = try await openssl.require(["asn1parse", "-in", attestation])
            for claim in ["050403", "020400BC614E", "0303", "01"] {
                #expect(text.contains("[HEX DUMP]:\(claim)\n"), "\(claim) is not in \(text)")
            }
            let reference = try await openssl.require(["x509", "-in", attestation, "-noout", "-subject"])
            #expect(reference.contains("CN = YubiKey PIV Attestation 9d"))
        }
    }

    @Test func `an ejected card is gone, and its keys are there when it is back`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication)
        try await yubiKey.eject()
        let (_, _, isSuccess) = try await tool.result(of: ["-a", "status"])
        #expect(!isSuccess)
        try await yubiKey.insert()
        try await PKCS11Module.ykcs11.expectSignature(keyID: "01")
    }

    @Test func `two cards are in the reader at once`() async throws {
        let second = try await VirtualYubiKey.current.insert(CardProfile(serialNumber: 777))
        let slots = try await PKCS11Module.ykcs11.run(["-L"])
        #expect(slots.contains("YubiKey PIV #12345678") && slots.contains("YubiKey PIV #777"))
        withExtendedLifetime(second) {}
    }

    @Test(.virtualYubiKey(CardProfile(firmware: Firmware(4, 3, 5))))
    func `firmware 4.3.5 signs and tells its serial number`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication)
        let status = try await tool.require(["-a", "status"])
        #expect(status.contains("Version:\t4.3.5") && status.contains("Serial Number:\t12345678"))
        try await PKCS11Module.ykcs11.expectSignature(keyID: "01")
    }

    @Test(.virtualYubiKey(CardProfile(firmware: Firmware(5, 7, 1))))
    func `an AES management key is nothing for ykcs11 2.2`() async throws {
        let (_, errors, isSuccess) = try await PKCS11Module.ykcs11.result(
            [
                "--login", "--login-type", "so", "--so-pin", VirtualYubiKey.factoryManagementKey, "--keypairgen",
                "--id", "1", "--key-type", "EC:secp256r1",
            ])
        #expect(!isSuccess && errors.contains("CKR_PIN_INCORRECT"))
    }

    @Test func `an imported key and P-384 work too`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let openssl = SystemProgram("openssl")
            let key = directory.path(of: "key.pem")
            try await openssl.require(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key])
            try await tool.require(["-a", "import-key", "-s", "9e", "-i", key])
            let (_, _, isAttested) = try await tool.result(of: ["-a", "attest", "-s", "9e"])
            #expect(!isAttested, "nobody vouches for an imported key")
            let made = try await tool.require(["-a", "generate", "-s", "9d", "-A", "ECCP384"])
            #expect(made.contains("BEGIN PUBLIC KEY"))
            let (_, errors, isMade) = try await tool.result(of: ["-a", "generate", "-s", "9a", "-A", "RSA2048"])
            #expect(!isMade, "RSA is refused: \(errors)")
        }
    }
}
