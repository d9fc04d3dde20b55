import Latchkey
import LatchkeyPKCS11
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// A PIV card creates keys through Yubico's module with the management key; through OpenSC's
/// module, existing keys are used.
struct YubiKeyContractTests {
    private static let yubiKey = CardProfile(serialNumber: 777)
    private static let thirdParty = CardProfile.thirdPartyPIV(serialNumber: 777)

    @Test(.virtualYubiKey, arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a YubiKey through ykcs11`(_ requirement: KeystoreContract.Requirement)
        async throws
    {
        try await checkYubicosModule(requirement, with: Self.yubiKey)
    }

    @Test(.virtualYubiKey, arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a YubiKey through OpenSC`(_ requirement: KeystoreContract.Requirement)
        async throws
    {
        try await checkOpenSC(requirement, with: Self.yubiKey)
    }

    // The card does not attest, so that the contract's attestation is `unsupported`.
    @Test(
        .virtualYubiKey(.thirdPartyPIV(serialNumber: 7)),
        arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a third-party PIV card through ykcs11`(
        _ requirement: KeystoreContract.Requirement
    ) async throws {
        try await checkYubicosModule(requirement, with: Self.thirdParty)
    }

    @Test(
        .virtualYubiKey(.thirdPartyPIV(serialNumber: 7)),
        arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a third-party PIV card through OpenSC`(
        _ requirement: KeystoreContract.Requirement
    ) async throws {
        try await checkOpenSC(requirement, with: Self.thirdParty)
    }

    /// - Parameter other: Another card of the same model.
    private func checkYubicosModule(
        _ requirement: KeystoreContract.Requirement, with other: CardProfile
    ) async throws {
        let anchors = MemoryTrustAnchors()
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.ykcs11, options: YubiKeyModule.neverHanging)
        let contract = KeystoreContract(
            device: KeystoreContract.Device(
                pin: .ofDevice(CardProfile.defaultPIN), guessing: .locks(after: 3), pinBytes: 6...8,
                officerPIN: VirtualYubiKey.factoryManagementKey, canDelete: false,
                hasOpenKeys: false,
                sealsOpenly: true),
            open: { try module.keystore(yubiKey.card, anchors: anchors) },
            openOther: { body in
                let card = try await yubiKey.insert(other)
                try await body(module.keystore(card, anchors: anchors))
            })
        try await contract.check(requirement)
    }

    /// - Parameter other: Another card of the same model.
    private func checkOpenSC(_ requirement: KeystoreContract.Requirement, with other: CardProfile)
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.opensc, options: YubiKeyModule.neverHanging)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        let contract = KeystoreContract(
            device: KeystoreContract.Device(
                pin: .ofDevice(CardProfile.defaultPIN), guessing: .locks(after: 3), pinBytes: 6...8,
                takesDigitsOnly: true, lendsKeys: true, provesPIN: false,
                hasOneKeyPerPolicy: true),
            open: { try module.keystore(yubiKey.card) },
            openToMake: { policy in
                let slot: KeySlot =
                    policy.requirement == .none ? .cardAuthentication : .authentication
                return try module.keystore(yubiKey.card, key: slot)
            },
            openOther: { body in
                let card = try await yubiKey.insert(other)
                try await YubiKeyModule.provision(yubiKey, card, slotOfReader: 1)
                try await body(module.keystore(card, key: .authentication))
            })
        try await contract.check(requirement)
    }
}
