import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// Through pcscd, with programs that take the card for a YubiKey.
@Suite(.virtualYubiKey, .requires(program: "pkcs11-tool"), .requires(program: "openssl"))
struct ReaderTests {
    @Test func `yubico-piv-tool sees a YubiKey 5`() async throws {
        let status = try await SystemProgram("yubico-piv-tool").require(["-a", "status"])
        #expect(status.contains("Version:\t5.4.3"))
        #expect(status.contains("Serial Number:\t12345678"))
        #expect(status.contains("PIN tries left:\t3"))
    }

    @Test(arguments: PKCS11Module.allCases)
    func `a key made by yubico-piv-tool signs`(through module: PKCS11Module) async throws {
        try await VirtualYubiKey.current.provision(.authentication)
        try await module.expectSignature(keyID: "01")
    }
}
