public import FoundationEssentials

/// 32 secret bytes that only the hardware gives back, and only when its policy is satisfied.
public struct SealedSecret: Hashable, Sendable, Codable {
    /// The version of what is sealed now.
    public static let currentVersion = 1

    /// The version of this form, ``currentVersion`` at its birth.
    public let version: Int
    /// The kind of keystore that sealed it: `tpm` or `pkcs11`.
    public let backend: String
    /// Who must be there when it is opened.
    public let policy: AccessPolicy
    /// What it is rooted in, and which presence the hardware enforces.
    public let assurance: AssuranceLevel
    /// Whether the hardware can take it back: ``Keystore/revoke(_:)``.
    public let isRevocable: Bool
    /// What the backend needs to open it. Opaque to everybody else.
    public let blob: Data

    /// A sealed secret as its keystore made it. Only keystores call this.
    public init(
        backend: String, policy: AccessPolicy, assurance: AssuranceLevel, isRevocable: Bool = false, blob: Data
    ) {
        version = Self.currentVersion
        self.backend = backend
        self.policy = policy
        self.assurance = assurance
        self.isRevocable = isRevocable
        self.blob = blob
    }

    /// The same secret with another blob: what a change of PIN returns.
    public func replacing(blob: Data) -> SealedSecret {
        SealedSecret(backend: backend, policy: policy, assurance: assurance, isRevocable: isRevocable, blob: blob)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        version = try container.decode(Int.self, forKey: .version)
        backend = try container.decode(String.self, forKey: .backend)
        policy = try container.decode(AccessPolicy.self, forKey: .policy)
        assurance = try container.decode(AssuranceLevel.self, forKey: .assurance)
        // What was stored before there were such secrets does not say it.
        isRevocable = try container.decodeIfPresent(Bool.self, forKey: .isRevocable) ?? false
        blob = try container.decode(Data.self, forKey: .blob)
    }
}
