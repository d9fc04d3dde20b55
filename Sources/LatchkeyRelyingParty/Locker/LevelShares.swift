public import Latchkey

/// A server's half of the keys that protect an enrolled device's data. Without it the device can't open them.
public struct LevelShares: Sendable, Equatable {
    /// The length of a share in bytes.
    public static let length = 32

    /// For the level `background`, 32 bytes: released to the device alone as well.
    public let background: SecretBytes
    /// For the level `active`, 32 bytes: released to the device after its user was authenticated.
    public let active: SecretBytes

    /// - Returns: nil unless both have 32 bytes.
    public init?(background: SecretBytes, active: SecretBytes) {
        guard background.count == Self.length, active.count == Self.length else { return nil }
        self.init(checked: background, active)
    }

    /// New shares, from the system's random number generator.
    public static func random() -> LevelShares {
        LevelShares(checked: .random(count: length), .random(count: length))
    }

    private init(checked background: SecretBytes, _ active: SecretBytes) {
        self.background = background
        self.active = active
    }
}
