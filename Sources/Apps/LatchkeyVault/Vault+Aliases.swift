public import Latchkey

// BiometricsVault's README has several names for some calls: in its table of scenarios, in its
// catalogue of vaults, and in its state diagram.

extension Vault {
    /// As ``storeToBiometrics(credentials:)``.
    public func storeWithBiometrics(credentials: Credentials) async throws(KeystoreError) -> Vault {
        try await storeToBiometrics(credentials: credentials)
    }

    /// As ``upgrade()``.
    public func upgradeToBiometrics() async throws(KeystoreError) -> Vault { try await upgrade() }

    /// As ``upgrade()``.
    public func upgradeWithBiometrics() async throws(KeystoreError) -> Vault { try await upgrade() }

    /// As `downgrade()`.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func downgradeToKeychain() throws(KeystoreError) -> Vault { try downgrade() }

    /// As `downgrade()`.
    public func downgradeToKeychain() async throws(KeystoreError) -> Vault { try await downgrade() }

    /// The name in the README's table.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    @available(*, deprecated, renamed: "storeToKeychain(credentials:)")
    public func storeToKeyChain(credentials: Credentials) throws(KeystoreError) -> Vault {
        try storeToKeychain(credentials: credentials)
    }

    /// The name in the README's table.
    @available(*, deprecated, renamed: "storeToKeychain(credentials:)")
    public func storeToKeyChain(credentials: Credentials) async throws(KeystoreError) -> Vault {
        try await storeToKeychain(credentials: credentials)
    }
}

extension EmptyVault {
    /// As ``storeToBiometrics(credentials:)``.
    public func storeWithBiometrics(
        credentials: Credentials
    ) async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        try await storeToBiometrics(credentials: credentials)
    }

    /// The name in the README's table.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    @available(*, deprecated, renamed: "storeToKeychain(credentials:)")
    public func storeToKeyChain(credentials: Credentials) throws(KeystoreError)
        -> KeychainSecureVault<Credentials>
    {
        try storeToKeychain(credentials: credentials)
    }

    /// The name in the README's table.
    @available(*, deprecated, renamed: "storeToKeychain(credentials:)")
    public func storeToKeyChain(
        credentials: Credentials
    ) async throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        try await storeToKeychain(credentials: credentials)
    }

    /// The name in the README's state diagram.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    @available(*, deprecated, renamed: "storeToKeychain(credentials:)")
    public func storeTokeychain(credentials: Credentials) throws(KeystoreError)
        -> KeychainSecureVault<Credentials>
    {
        try storeToKeychain(credentials: credentials)
    }

    /// The name in the README's state diagram.
    @available(*, deprecated, renamed: "storeToKeychain(credentials:)")
    public func storeTokeychain(
        credentials: Credentials
    ) async throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        try await storeToKeychain(credentials: credentials)
    }
}

extension KeychainSecureVault {
    /// As ``upgrade()``.
    public func upgradeWithBiometrics() async throws(KeystoreError) -> BiometricsSecureVault<
        Credentials
    > {
        try await upgrade()
    }
}

extension BiometricsSecureVault {
    /// As `downgrade()`.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func downgradeToKeychain() throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        try downgrade()
    }

    /// As `downgrade()`.
    public func downgradeToKeychain() async throws(KeystoreError) -> KeychainSecureVault<
        Credentials
    > {
        try await downgrade()
    }
}
