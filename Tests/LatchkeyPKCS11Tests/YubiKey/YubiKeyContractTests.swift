import Latchkey
import LatchkeyPKCS11
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// A YubiKey creates keys through Yubico's module with the management key; through OpenSC's module, existing keys are used.
@Suite(.virtualYubiKey)
struct YubiKeyContractTests {
    private static let other = CardProfile(serialNumber: 777)

    @Test(arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a YubiKey through ykcs11`(_ requirement: KeystoreContract.Requirement) async throws {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.ykcs11)
        let contract = KeystoreContract(
            device: KeystoreContract.Device(
                pin: .ofDevice(CardProfile.defaultPIN), guessing: .locks(after: 3), pinBytes: 6...8,
                officerPIN: VirtualYubiKey.factoryManagementKey, canDelete: false, hasOpenKeys: false,
                sealsOpenly: true),
            open: { try module.keystore(yubiKey.card) },
            openOther: { body in
                let card = try await yubiKey.insert(Self.other)
                try await body(module.keystore(card))
            })
        try await contract.check(requirement)
    }

    @Test(arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on a YubiKey through OpenSC`(_ requirement: KeystoreContract.Requirement) async throws {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.opensc)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        let contract = KeystoreContract(
            device: KeystoreContract.Device(
                pin: .ofDevice(CardProfile.defaultPIN), guessing: .locks(after: 3), pinBytes: 6...8,
                takesDigitsOnly: true, lendsKeys: true,
                hasOneKeyPerPolicy: true),
            open: { try module.keystore(yubiKey.card) },
            openToMake: { policy in
                let slot: KeySlot = policy.requirement == .none ? .cardAuthentication : .authentication
                return try module.keystore(yubiKey.card, key: slot)
            },
            openOther: { body in
                let card = try await yubiKey.insert(Self.other)
                try await YubiKeyModule.provision(yubiKey, card, slotOfReader: 1)
                try await body(module.keystore(card, key: .authentication))
            })
        try await contract.check(requirement)
    }
}
