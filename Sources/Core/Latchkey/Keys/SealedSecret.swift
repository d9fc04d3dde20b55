package import FoundationEssentials

/// 32 secret bytes that only the hardware can decrypt, and only if its policy is satisfied.
public struct SealedSecret: Hashable, Sendable, Codable {
    /// The current version of the stored form.
    package static let currentVersion = 1

    /// The version of this value: ``currentVersion`` when it was created.
    package let version: Int
    /// The kind of keystore that sealed the secret: `tpm` or `pkcs11`.
    package let backend: String
    /// The user verification that unsealing requires.
    public let policy: AccessPolicy
    /// The hardware that sealed the secret, and the user verification that it enforces.
    package let assurance: AssuranceLevel
    /// Whether ``RevokingKeystore/revoke(_:)`` can revoke the secret.
    public let isRevocable: Bool
    /// The data that the backend needs to unseal the secret. Opaque to other code.
    package private(set) var blob: Data

    package init(
        backend: String, policy: AccessPolicy, assurance: AssuranceLevel, isRevocable: Bool = false,
        blob: Data
    ) {
        version = Self.currentVersion
        self.backend = backend
        self.policy = policy
        self.assurance = assurance
        self.isRevocable = isRevocable
        self.blob = blob
    }

    /// The same secret with another blob, as a PIN change returns it.
    package func replacing(blob: Data) -> SealedSecret {
        var secret = self
        secret.blob = blob
        return secret
    }
}
