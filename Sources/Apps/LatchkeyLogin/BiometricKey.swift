public import Latchkey

/// A hardware key for login on this device.
public struct BiometricKey: Hashable, Sendable, Identifiable {
    /// The name of the key on this device and on the server (`kid`).
    public var id: KeyID { key.id }
    /// The id of the key's owner.
    public let userID: String
    /// The key in hardware.
    public let key: HardwareKey
    /// The generation of the row that holds it.
    let generation: Int
    /// Whether the server has required that requests of this key name the server and the client.
    let requiresAudience: Bool
    /// The reason why the hardware refused to make the key revocable. Only on the value that
    /// ``Container/enableBiometric(policy:replacing:reason:)-(AccessPolicy?,_,_)`` returns; nil on
    /// a key from the store.
    package internal(set) var notRevocableReason: String?
    /// Whether ``Container/enableBiometric(policy:replacing:reason:)-(AccessPolicy?,_,_)`` found
    /// this key enabled and did nothing. False on the values of all other calls.
    public internal(set) var wasAlreadyEnabled = false

    /// Two values are equal if they come from the same stored row.
    public static func == (left: BiometricKey, right: BiometricKey) -> Bool {
        left.userID == right.userID && left.key == right.key && left.generation == right.generation
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(key)
        hasher.combine(generation)
    }
}

extension BiometricKey {
    /// The key in a row.
    init(_ record: Record) throws(KeystoreError) {
        guard let key = record.key, let owner = record.attributes[LoginRows.owner] else {
            throw .damaged("the record of the biometric key has no key or no owner")
        }
        self.init(
            userID: owner, key: key, generation: record.generation,
            requiresAudience: record.attributes[LoginRows.audience] == LoginRows.audienceRequired)
    }
}
