public import FoundationEssentials
public import Latchkey

/// A key with which a user can log in on this device.
public struct BiometricKey: Hashable, Sendable, Identifiable {
    /// The name of the key here and on the server (`kid`).
    public var id: KeyID { key.id }
    /// The user to whom the key belongs (the seed's BiometricUserID).
    public let userID: String
    /// The key in hardware.
    public let key: HardwareKey
    /// The generation of the row that holds it.
    let generation: Int
    /// Whether the server has required that requests of this key name it.
    let requiresAudience: Bool
    /// Why the hardware refused to make the key revocable. Only on the value that
    /// ``Container/enableBiometric(policy:replacing:)`` returns; nil on a key that was read from the store.
    public internal(set) var notRevocableReason: String?

    /// Two values are equal when they are of the same stored row.
    public static func == (left: BiometricKey, right: BiometricKey) -> Bool {
        left.userID == right.userID && left.key == right.key && left.generation == right.generation
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(key)
        hasher.combine(generation)
    }

    /// Who must be present when it is used.
    public var policy: AccessPolicy { key.policy }
    /// What the key can promise.
    public var assurance: AssuranceLevel { key.assurance }
    /// Whether the hardware can take it back: a copy of the store from before a change of its PIN, or from before it was
    /// disabled, is worth nothing then.
    public var isRevocable: Bool { key.isRevocable }
    /// When it was made; whole seconds.
    public var createdAt: Date { key.createdAt }
}

extension BiometricKey {
    /// The key in a row.
    init(_ record: Record) throws(KeystoreError) {
        guard let key = record.key, let owner = record.attributes[LoginRows.owner] else {
            throw .damaged("read the biometric key", "its record has no key or no owner")
        }
        self.init(
            userID: owner, key: key, generation: record.generation,
            requiresAudience: record.attributes[LoginRows.audience] == LoginRows.audienceRequired)
    }
}
