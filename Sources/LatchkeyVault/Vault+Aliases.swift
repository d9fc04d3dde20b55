public import Latchkey

// The seed names some calls twice: one way in its catalogue of vaults, another way in its state diagram. Both work.

extension Vault {
    /// ``storeToBiometrics(credentials:)``.
    public func storeWithBiometrics(credentials: Credentials) async throws(KeystoreError) -> Vault {
        try await storeToBiometrics(credentials: credentials)
    }

    /// ``upgrade()``.
    public func upgradeToBiometrics() async throws(KeystoreError) -> Vault { try await upgrade() }

    /// `downgrade()`.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func downgradeToKeychain() throws(KeystoreError) -> Vault { try downgrade() }

    /// `downgrade()`.
    public func downgradeToKeychain() async throws(KeystoreError) -> Vault { try await downgrade() }
}

extension EmptyVault {
    /// ``storeToBiometrics(credentials:)``.
    public func storeWithBiometrics(
        credentials: Credentials
    ) async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        try await storeToBiometrics(credentials: credentials)
    }
}

extension KeychainSecureVault {
    /// ``upgrade()``.
    public func upgradeWithBiometrics() async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        try await upgrade()
    }
}

extension BiometricsSecureVault {
    /// `downgrade()`.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func downgradeToKeychain() throws(KeystoreError) -> KeychainSecureVault<Credentials> { try downgrade() }

    /// `downgrade()`.
    public func downgradeToKeychain() async throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        try await downgrade()
    }
}
