import Latchkey
import LatchkeyTestSupport
import LatchkeyTesting
import LatchkeyVault
import Testing

/// Every call in every state: it leads to a state, or is refused and changes nothing.
@Suite(.softwareTPM, .softwareToken)
struct TransitionTests {
    enum Operation: String, CaseIterable {
        case storeToKeychain, storeToBiometrics, update, upgrade, downgrade, lock, unlock,
            reauthenticateOwner
        case credentials, reset

        /// The next state; nil if the call is refused.
        func target(from state: StateName) -> StateName? {
            switch (state, self) {
            case (_, .reset): .emptyWithBiometrics
            case (.emptyWithBiometrics, .storeToKeychain): .keychainUpgradable
            case (.emptyWithBiometrics, .storeToBiometrics): .biometrics
            case (.keychainUpgradable, .update), (.keychainUpgradable, .credentials):
                .keychainUpgradable
            case (.keychainUpgradable, .upgrade): .biometrics
            case (.biometrics, .update), (.biometrics, .credentials),
                (.biometrics, .reauthenticateOwner):
                .biometrics
            case (.biometrics, .downgrade): .keychainUpgradable
            case (.biometrics, .lock): .locked
            case (.locked, .unlock): .biometrics
            case (.locked, .reauthenticateOwner): .locked
            default: nil
            }
        }

        /// The case of the iOS library's error for a call that is refused.
        func code(in state: StateName) -> VaultErrorCode? {
            switch (state, self) {
            case (.emptyWithBiometrics, _): .notEnabled
            case (.keychainUpgradable, .storeToKeychain): .alreadyUsesKeychain
            case (.keychainUpgradable, .storeToBiometrics):
                .alreadySecuredByKeychainUseSecureFunction
            case (.keychainUpgradable, .downgrade), (.keychainUpgradable, .lock),
                (.keychainUpgradable, .reauthenticateOwner):
                .notSecuredWithBiometrics
            case (.keychainUpgradable, .unlock), (.biometrics, .unlock): .notLockedWithBiometrics
            case (.biometrics, .storeToKeychain), (.biometrics, .storeToBiometrics),
                (.biometrics, .upgrade):
                .alreadySecuredWithBiometrics
            case (.locked, .storeToKeychain), (.locked, .storeToBiometrics), (.locked, .upgrade):
                .lockedWithBiometricsCannotEnable
            case (.locked, .downgrade): .lockedWithBiometricsUseReset
            case (.locked, .lock), (.locked, .update), (.locked, .credentials):
                .alreadyLockedWithBiometrics
            default: nil
            }
        }

        func perform(on vault: Vault<Login>) async throws -> Vault<Login> {
            switch self {
            case .storeToKeychain: return try await vault.storeToKeychain(credentials: .june)
            case .storeToBiometrics: return try await vault.storeToBiometrics(credentials: .june)
            case .update: return try await vault.update(credentials: .june)
            case .upgrade: return try await vault.upgrade()
            case .downgrade: return try await vault.downgrade()
            case .lock: return try vault.lock()
            case .unlock: return try await vault.unlock()
            case .reauthenticateOwner:
                #expect(try await vault.reauthenticateOwner())
                return vault
            case .credentials:
                #expect(try vault.credentials == .jane)
                return vault
            case .reset: return try await vault.reset()
            }
        }
    }

    static let states: [StateName] = [
        .emptyWithBiometrics, .keychainUpgradable, .biometrics, .locked,
    ]

    static let calls = states.flatMap { state in Operation.allCases.map { (state, $0) } }

    @Test(arguments: SimulatedDevice.allCases, calls)
    func `each call leads to the state in the diagram or is refused`(
        device: SimulatedDevice, call: (state: StateName, operation: Operation)
    ) async throws {
        let (state, operation) = call
        let scene = try Scene(on: device)
        let space = try await scene.start()
        let start = try await Self.reach(state, space)
        guard let target = operation.target(from: state) else {
            let before = try scene.bytes()
            let error = await #expect(throws: KeystoreError.self) {
                try await operation.perform(on: start)
            }
            #expect(error == wrongState && error?.vaultCode == operation.code(in: state))
            #expect(try scene.bytes() == before)
            #expect(name(of: vault(in: space)) == state)
            return
        }
        let after = try await operation.perform(on: start)
        #expect(name(of: after) == target)
        let found = vault(in: space)
        #expect(name(of: found) == target)
        switch found {
        case .keychainUpgradable, .biometrics:
            let isNew = [.update, .storeToKeychain, .storeToBiometrics].contains(operation)
            #expect(try found.credentials == (isNew ? .june : .jane))
        default: #expect(throws: wrongState) { try found.credentials }
        }
        #expect(found.biometricsEnabled == [.biometrics, .locked].contains(target))
    }

    @Test(arguments: SimulatedDevice.allCases, states)
    func `a state survives a restart, locked if it requires user verification`(
        device: SimulatedDevice, state: StateName
    ) async throws {
        let scene = try Scene(on: device)
        _ = try await Self.reach(state, scene.start())
        let again = vault(in: try await scene.start())
        #expect(name(of: again) == (state == .biometrics ? .locked : state))
        if state == .keychainUpgradable { #expect(try again.credentials == .jane) }
        if state == .locked { #expect(try await again.unlock().credentials == .jane) }
    }

    private static func reach(_ state: StateName, _ space: VaultSpace) async throws -> Vault<Login>
    {
        let empty = vault(in: space)
        return switch state {
        case .keychainUpgradable: try await empty.storeToKeychain(credentials: .jane)
        case .biometrics: try await empty.storeToBiometrics(credentials: .jane)
        case .locked: try await empty.storeToBiometrics(credentials: .jane).lock()
        default: empty
        }
    }
}
