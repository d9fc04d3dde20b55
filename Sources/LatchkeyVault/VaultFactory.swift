/// Finds vaults.
public enum VaultFactory<Credentials: Codable & Sendable> {
    /// The vault of this name in the space that ``VaultSpace/bootstrap(_:)`` named.
    ///
    /// Looks at one row: asks nobody, uses no hardware, changes nothing. It never throws, and says `empty` only when it
    /// has looked and nothing is there. What is there and can't be used, because it is damaged or the store can't be
    /// read, is a locked vault with a ``LockedBiometricsSecureVault/failure``.
    ///
    /// - Parameter key: 1 to 64 bytes of UTF-8 without control characters.
    public static func retrieveVault(key: String) -> Vault<Credentials> {
        VaultSlot(key: key, space: VaultSpace.shared).vault
    }

    /// The vault of this name in `space`; as ``retrieveVault(key:)``.
    public static func retrieveVault(key: String, in space: VaultSpace) -> Vault<Credentials> {
        VaultSlot(key: key, space: space).vault
    }
}
