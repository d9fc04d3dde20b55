public import Latchkey

/// Why a call does not fit the vault's state: the cases of BiometricsVault's `VaultError` for that.
/// Each comes with the code `wrongState`; see `KeystoreError.vaultCode`.
///
/// Its other cases are codes of `KeystoreError`: `notAvailable` is `unavailable`, `unsupported`,
/// `notEnrolled` or `passcodeNotSet`, and `retrievalFailure` is `damaged`, `invalidated`,
/// `wrongDevice`, or `invalidInput` for a value of another type. Any other code of a call that stores is `storingFailure`.
public enum VaultErrorCode: String, Hashable, Sendable {
    /// Nothing is stored.
    case notEnabled
    /// The credentials are stored without biometrics. They cannot be downgraded or locked, and there
    /// is no owner to verify.
    case notSecuredWithBiometrics
    /// The vault to unlock is not locked.
    case notLockedWithBiometrics
    /// The vault to lock or to read is locked.
    case alreadyLockedWithBiometrics
    /// The vault to downgrade is locked. Unlock it, or reset it.
    case lockedWithBiometricsUseReset
    /// The vault to store into or to upgrade is locked.
    case lockedWithBiometricsCannotEnable
    /// The credentials are stored without biometrics already.
    case alreadyUsesKeychain
    /// The credentials are stored without biometrics: upgrade the vault instead.
    case alreadySecuredByKeychainUseSecureFunction
    /// The credentials are stored with biometrics already.
    case alreadySecuredWithBiometrics

    /// The layer of the underlying error that has the code.
    fileprivate static let layer = "vault"

    /// The underlying error of `wrongState`.
    var underlying: UnderlyingError { UnderlyingError(layer: Self.layer, text: rawValue) }

    /// A call that fits some states only.
    enum Call {
        case storeToKeychain, storeToBiometrics, upgrade, downgrade, read, lock, unlock, verifyOwner
    }

    /// A state of the stored value.
    enum State: String {
        case empty
        case keychain = "stored without biometrics"
        case unlocked
        case locked
    }

    /// The code of a call in a state that it does not fit.
    init(_ call: Call, in state: State) {
        self =
            switch (state, call) {
            case (.empty, _): .notEnabled
            case (.keychain, .storeToKeychain): .alreadyUsesKeychain
            case (.keychain, .storeToBiometrics): .alreadySecuredByKeychainUseSecureFunction
            case (.keychain, .unlock), (.unlocked, .unlock): .notLockedWithBiometrics
            case (.keychain, _): .notSecuredWithBiometrics
            case (.unlocked, _): .alreadySecuredWithBiometrics
            case (.locked, .storeToKeychain), (.locked, .storeToBiometrics), (.locked, .upgrade):
                .lockedWithBiometricsCannotEnable
            case (.locked, .downgrade): .lockedWithBiometricsUseReset
            case (.locked, _): .alreadyLockedWithBiometrics
            }
    }
}

extension KeystoreError {
    /// Why a call did not fit a vault's state; nil for any other error.
    public var vaultCode: VaultErrorCode? {
        guard underlying?.layer == VaultErrorCode.layer else { return nil }
        return underlying.flatMap { VaultErrorCode(rawValue: $0.text) }
    }
}
