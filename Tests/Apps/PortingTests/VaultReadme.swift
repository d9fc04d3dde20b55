import Foundation
import LatchkeyVault

// The unchanged code of BiometricsVault's README, except for the import, where an app has it. The
// rest of this file is the app's own.

struct MyCredentials: Codable, Sendable {
    let username: String
    let accessToken: String
}

/// An app that follows the README.
@MainActor final class VaultApp {
    /// The screens that were shown.
    private(set) var shown = ""

    // swift-format-ignore
    func start() {
        let key = "my_app_credentials" // This key will be used to identify your credentials in the keychain
        let vault = VaultFactory<MyCredentials>.retrieveVault(key: key)

    switch vault {
    case .emptyWithBiometrics(let emptyVault):
        // Go to login screen. Biometrics can be enabled upon login
        displayLoginScreen(biometrics: true)
    case .empty(let vault):
        // Go to login screen. Biometrics cannot be used
        displayLoginScreen(biometrics: false)
    case .keychain(let vault):
        // Log in the user right away and use the credentials from the vault to do so
        displayMainScreen(credentials: vault.credentials)
    case .keychainUpgradable(let vault):
        // Log in the user right away and use the credentials from the vault to do so.
        // The user can enabled the biometrics from the settings screen
        displayMainScreen(credentials: vault.credentials)
    case .biometrics(let vault):
        // Log in the user right away and use the credentials from the vault to do so.
        // The user can disable the biometrics from the settings screen
        displayMainScreen(credentials: vault.credentials)
    case .locked(let vault):
        // Display a 'biometrics locked' screen and prompt the user to unlock using biometrics.
        // Use 'vault.unlock' to unlock the vault
        displayLockScreen(withVault: vault)
        break
    }
    }

    private func displayLoginScreen(biometrics: Bool) { shown = "login, biometrics: \(biometrics)" }

    private func displayMainScreen(credentials: MyCredentials) {
        shown = "main, \(credentials.username)"
    }

    private func displayLockScreen(withVault vault: LockedBiometricsSecureVault<MyCredentials>) {
        shown = "locked"
    }

    // MARK: The table of scenarios

    /// The app's vault at this moment, as at a launch.
    private func vault(in space: VaultSpace) -> Vault<MyCredentials> {
        VaultFactory<MyCredentials>.retrieveVault(key: "my_app_credentials", in: space)
    }

    func perform(_ scenario: Scenario, _ credentials: MyCredentials, in space: VaultSpace)
        async throws
    {
        switch scenario {
        case .newLogin: _ = try await vault(in: space).storeToKeychain(credentials: credentials)
        case .newLoginWithBiometrics:
            _ = try await vault(in: space).storeToBiometrics(credentials: credentials)
        case .userEnablesBiometrics: _ = try await vault(in: space).upgrade()
        case .userDisablesBiometrics: _ = try await vault(in: space).downgrade()
        case .lockTheApp: _ = try vault(in: space).lock()
        case .unlockTheApp: _ = try await vault(in: space).unlock()
        case .userLogsOut: _ = try await vault(in: space).reset()
        }
    }

    enum Scenario: CaseIterable {
        case newLogin, newLoginWithBiometrics, userEnablesBiometrics, userDisablesBiometrics,
            lockTheApp, unlockTheApp
        case userLogsOut
    }
}
