import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

// A suite of its own, because scripts/test runs suites with cards beside each other.
struct ThirdPartyContractTests {
    private static let thirdParty = CardProfile.thirdPartyPIV(serialNumber: 777)

    // The card does not attest, so that the contract's attestation is `unsupported`.
    @Test(
        .virtualYubiKey(.thirdPartyPIV(serialNumber: 7)),
        arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a third-party PIV card through ykcs11`(
        _ requirement: KeystoreContract.Requirement
    ) async throws {
        try await PIVContract.checkYubicosModule(requirement, with: Self.thirdParty)
    }

    @Test(
        .virtualYubiKey(.thirdPartyPIV(serialNumber: 7)),
        arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a third-party PIV card through OpenSC`(
        _ requirement: KeystoreContract.Requirement
    ) async throws {
        try await PIVContract.checkOpenSC(requirement, with: Self.thirdParty)
    }
}
