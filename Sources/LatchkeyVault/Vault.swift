/// A vault in one of its states. Switch over it to see which page to show; the typed vault in each case has the calls
/// that fit the state. The calls on this type itself work on every state and throw `KeystoreError` with code
/// `wrongState` where the state does not fit.
///
/// Whether somebody's presence can be verified belongs to the machine at a moment, not to what is stored: `empty` and
/// `emptyWithBiometrics`, `keychain` and `keychainUpgradable` differ in nothing else.
public enum Vault<Credentials: Codable & Sendable>: Sendable {
    /// Nothing is stored, and biometrics can be used.
    case emptyWithBiometrics(EmptyVault<Credentials>)
    /// Nothing is stored, and biometrics can't be used.
    case empty(EmptyVault<Credentials>)
    /// Stored without biometrics, which can't be used.
    case keychain(KeychainSecureVault<Credentials>)
    /// Stored without biometrics, which can be used.
    case keychainUpgradable(KeychainSecureVault<Credentials>)
    /// Stored with biometrics, and unlocked in this program.
    case biometrics(BiometricsSecureVault<Credentials>)
    /// Stored with biometrics and locked, or unusable: see ``LockedBiometricsSecureVault/failure``.
    case locked(LockedBiometricsSecureVault<Credentials>)
}
