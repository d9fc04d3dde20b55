import LatchkeyVault

/// A state, without the vault in it.
enum StateName: String, CaseIterable {
    case emptyWithBiometrics, empty, keychain, keychainUpgradable, biometrics, locked

    init<Credentials>(_ vault: Vault<Credentials>) {
        self =
            switch vault {
            case .emptyWithBiometrics: .emptyWithBiometrics
            case .empty: .empty
            case .keychain: .keychain
            case .keychainUpgradable: .keychainUpgradable
            case .biometrics: .biometrics
            case .locked: .locked
            }
    }
}
