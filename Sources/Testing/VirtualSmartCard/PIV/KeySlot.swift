/// A key slot (SP 800-73-4 Part 1 table 4b, and Yubico's F9).
public struct KeySlot: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt8

    public init?(rawValue: UInt8) {
        guard Self.named.contains(rawValue) || Self.retired.contains(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    private init(_ rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// 9a, PIV Authentication.
    public static let authentication = KeySlot(0x9A)
    /// 9c, Digital Signature.
    public static let signature = KeySlot(0x9C)
    /// 9d, Key Management.
    public static let keyManagement = KeySlot(0x9D)
    /// 9e, Card Authentication: requires no PIN by default.
    public static let cardAuthentication = KeySlot(0x9E)
    /// The key that attests the others.
    public static let attestation = KeySlot(0xF9)

    private static let named: Set<UInt8> = [0x9A, 0x9C, 0x9D, 0x9E, 0xF9]
    /// 82 to 95, Retired Key Management.
    private static let retired: ClosedRange<UInt8> = 0x82...0x95

    /// The tag of the data object with the key's certificate (SP 800-73-4 Part 1 table 3).
    package var certificateObject: [UInt8] {
        switch self {
        case .authentication: [0x5F, 0xC1, 0x05]
        case .signature: [0x5F, 0xC1, 0x0A]
        case .keyManagement: [0x5F, 0xC1, 0x0B]
        case .cardAuthentication: [0x5F, 0xC1, 0x01]
        case .attestation: [0x5F, 0xFF, 0x01]
        default: [0x5F, 0xC1, rawValue - 0x82 + 0x0D]
        }
    }
}

/// A key in a slot, with its policies.
struct SlotKey {
    /// The origin of the key, with its number in the metadata.
    enum Origin: UInt8 {
        case generated = 1
        case imported = 2
    }

    let key: CardKey
    let pinPolicy: PINPolicy
    let touchPolicy: TouchPolicy
    let origin: Origin
}

/// When a key requires the PIN. The raw values are Yubico's.
public enum PINPolicy: UInt8, Sendable {
    /// No PIN.
    case never = 1
    /// Once after the application is selected.
    case once = 2
    /// Directly before each use.
    case always = 3
}

/// When a key requires a touch. The raw values are Yubico's.
public enum TouchPolicy: UInt8, Sendable {
    /// No touch.
    case never = 1
    /// At each use.
    case always = 2
    /// At each use, unless the card was touched within the last 15 seconds.
    case cached = 3
}
