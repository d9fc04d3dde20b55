import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// The OpenPGP card in pcscd, with OpenSC's programs.
@Suite(
    .virtualYubiKey(.openPGP()), .requires(program: "pkcs11-tool"),
    .requires(program: "openpgp-tool"),
    .requires(program: "openssl"))
struct OpenPGPReaderTests {
    /// The slots of OpenSC's module.
    private static let (userSlot, signatureSlot) = (["--slot-index", "0"], ["--slot-index", "1"])

    @Test func `OpenSC sees an OpenPGP card`() async throws {
        let reader = ["-r", SmartCardReader.name(ofSlot: 0)]
        let name = try await SystemProgram("opensc-tool").require(reader + ["-n"])
        #expect(name.contains("OpenPGP card v3.4 (F1D0 00000000)"), "\(name)")
        let holder = try await SystemProgram("openpgp-tool").require(reader + ["-U", "-C"])
        #expect(
            holder.contains("Version:         3.4\n") && holder.contains("Language:        en\n"),
            "\(holder)")
    }

    @Test func `OpenSC shows one slot for each PIN, with the same serial number`() async throws {
        let slots = try await PKCS11Module.opensc.run(["-L"])
        #expect(slots.contains("(User PIN)") && slots.contains("(User PIN (sig))"), "\(slots)")
        #expect(
            slots.split(separator: "f1d000000000", omittingEmptySubsequences: false).count == 3,
            "\(slots)")
    }

    @Test func `the signature key and the authentication key sign`() async throws {
        try await PKCS11Module.opensc.expectSignature(keyID: "03", slot: Self.userSlot)
        try await PKCS11Module.opensc.expectSignature(keyID: "01", slot: Self.signatureSlot)
    }

    @Test func `wrong PINs lock both slots`() async throws {
        // The card's answer to a wrong PIN, 6982, has no attempts left.
        for code in ["CKR_USER_NOT_LOGGED_IN", "CKR_USER_NOT_LOGGED_IN", "CKR_PIN_LOCKED"] {
            let outcome = try await PKCS11Module.opensc.result(
                Self.userSlot + ["--login", "--pin", "111111", "-O"])
            #expect(!outcome.isSuccess && outcome.errors.contains(code), "\(outcome.text)")
        }
        let outcome = try await PKCS11Module.opensc.result(
            Self.signatureSlot + ["--login", "--pin", "123456", "-O"])
        #expect(!outcome.isSuccess && outcome.errors.contains("CKR_PIN_LOCKED"), "\(outcome.text)")
    }

    @Test func `a card that is removed at a chosen command of a slow listing works afterwards`()
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        yubiKey.card.commandDelay = .milliseconds(30)
        let before = yubiKey.card.statistics.commands
        _ = try await PKCS11Module.opensc.run(["-O"])
        let count = yubiKey.card.statistics.commands - before
        yubiKey.card.inject(CardFault(.removal, atCommand: count / 2))
        _ = try await PKCS11Module.opensc.result(["-O"])
        #expect(!yubiKey.card.isInserted)
        try await yubiKey.eject()
        try await yubiKey.insert()
        yubiKey.card.commandDelay = .zero
        try await PKCS11Module.opensc.expectSignature(keyID: "01", slot: Self.signatureSlot)
    }
}
