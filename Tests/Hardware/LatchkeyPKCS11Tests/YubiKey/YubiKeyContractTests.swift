import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

struct YubiKeyContractTests {
    private static let yubiKey = CardProfile(serialNumber: 777)

    @Test(.virtualYubiKey, arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a YubiKey through ykcs11`(_ requirement: KeystoreContract.Requirement)
        async throws
    {
        try await PIVContract.checkYubicosModule(requirement, with: Self.yubiKey)
    }

    @Test(.virtualYubiKey, arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a YubiKey through OpenSC`(_ requirement: KeystoreContract.Requirement)
        async throws
    {
        try await PIVContract.checkOpenSC(requirement, with: Self.yubiKey)
    }
}
