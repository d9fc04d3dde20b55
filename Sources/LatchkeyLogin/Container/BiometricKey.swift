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

    public var policy: AccessPolicy { key.policy }
    public var assurance: AssuranceLevel { key.assurance }
    public var createdAt: Date { key.createdAt }
}
