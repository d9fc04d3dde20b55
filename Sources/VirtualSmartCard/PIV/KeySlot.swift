/// A place for a key (SP 800-73-4 Part 1 table 4b, and Yubico's F9).
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
    /// 9e, Card Authentication: needs no PIN.
    public static let cardAuthentication = KeySlot(0x9E)
    /// The key that attests the others.
    public static let attestation = KeySlot(0xF9)

    /// The places for keys that are no longer in use.
    ///
    /// - Parameter number: 1 to 20.
    public static func retired(_ number: UInt8) -> KeySlot? {
        (1...20).contains(number) ? KeySlot(0x81 + number) : nil
    }

    private static let named: Set<UInt8> = [0x9A, 0x9C, 0x9D, 0x9E, 0xF9]
    private static let retired: ClosedRange<UInt8> = 0x82...0x95

    /// When a key here wants the PIN, unless it was made with a policy of its own.
    var defaultPINPolicy: PINPolicy {
        switch self {
        case .signature: .always
        case .cardAuthentication: .never
        default: .once
        }
    }

    /// The data object that holds the key's certificate (SP 800-73-4 Part 1 table 3).
    public var certificateObject: [UInt8] {
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
