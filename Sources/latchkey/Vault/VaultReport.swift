import FoundationEssentials
import Latchkey
import LatchkeyVault

/// How a vault stands.
struct VaultReport: Report {
    let name: String
    /// `empty`, `keychain`, `biometrics`, `locked` or `damaged`.
    let state: String
    let biometricsEnabled: Bool
    /// Whether the hardware can revoke a vault with biometrics; only in the reports of `vault status`, `store` and `upgrade`.
    let isRevocable: Bool?

    init(_ vault: Vault<Data>, isRevocable: Bool? = nil) {
        self.isRevocable = isRevocable
        name = vault.key
        biometricsEnabled = vault.biometricsEnabled
        state =
            switch vault {
            case .empty, .emptyWithBiometrics: "empty"
            case .keychain, .keychainUpgradable: "keychain"
            case .biometrics: "biometrics"
            case .locked(let locked): locked.failure == nil ? "locked" : "damaged"
            }
    }

    var text: String {
        let words =
            switch state {
            case "empty": "is empty"
            case "keychain": "is stored; this machine opens it without you"
            case "biometrics": "is stored and opens; it is locked again when this command ends"
            case "locked": "is stored and locked; it takes you to open it"
            default: "can't be read, and nothing was changed; ‘latchkey vault reset’ discards it"
            }
        let copies =
            isRevocable == false
            ? "\nThis hardware can't take it back: copies of the store go on opening it." : ""
        return "The vault ‘\(printable(name))’ \(words).\(copies)"
    }
}
