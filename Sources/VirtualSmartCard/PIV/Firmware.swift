/// The version of a card's firmware. Yubico's additions came one by one.
public struct Firmware: Comparable, Hashable, Sendable, LosslessStringConvertible {
    /// The first number.
    public let major: UInt8
    /// The second number.
    public let minor: UInt8
    /// The third number.
    public let patch: UInt8

    /// A version of three numbers.
    public init(_ major: UInt8, _ minor: UInt8, _ patch: UInt8) {
        self.major = major
        self.minor = minor
        self.patch = patch
    }

    /// Reads `5.4.3`.
    public init?(_ description: String) {
        let parts = description.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        guard parts.count == 3, let major = parts[0], let minor = parts[1], let patch = parts[2] else { return nil }
        self.init(major, minor, patch)
    }

    public var description: String { "\(major).\(minor).\(patch)" }

    public static func < (one: Firmware, other: Firmware) -> Bool {
        one.bytes.lexicographicallyPrecedes(other.bytes)
    }

    var bytes: [UInt8] { [major, minor, patch] }

    /// Whether keys can be attested: 4.3.0 and newer.
    var attests: Bool { self >= Firmware(4, 3, 0) }
    /// Whether the PIV application tells the serial number itself: 5.0.0 and newer.
    var tellsSerialNumber: Bool { self >= Firmware(5, 0, 0) }
    /// Whether there is GET METADATA: 5.3.0 and newer.
    var tellsMetadata: Bool { self >= Firmware(5, 3, 0) }
    /// Whether the management key may be an AES key: 5.4.2 and newer.
    var hasAESManagementKey: Bool { self >= Firmware(5, 4, 2) }
    /// Whether it is one when the card leaves the factory, and whether keys can be moved and deleted: 5.7.0 and newer.
    var isFifthSeventh: Bool { self >= Firmware(5, 7, 0) }
}
