import Latchkey
import LatchkeyPKCS11
import LatchkeyTestSupport
import LatchkeyTesting
import VirtualSmartCard

/// The contract for a PIV card: it creates keys through Yubico's module with the management key;
/// through OpenSC's module, existing keys are used.
enum PIVContract {
    /// - Parameter other: Another card of the same model.
    static func checkYubicosModule(
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
    static func checkOpenSC(_ requirement: KeystoreContract.Requirement, with other: CardProfile)
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
