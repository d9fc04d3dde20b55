internal import FoundationEssentials
internal import Latchkey

/// A place for a key on a PIV card (NIST SP 800-73-4 part 1 section 3), as ykcs11 and OpenSC number them in `CKA_ID`.
public struct PIVSlot: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The key reference, for example 0x9a.
    public let rawValue: UInt8

    /// - Returns: nil for what is none of 9a, 9c, 9d, 9e, 82…95.
    public init?(rawValue: UInt8) {
        guard [0x9a, 0x9c, 0x9d, 0x9e].contains(rawValue) || (0x82...0x95).contains(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// Reads two hexadecimal digits, for example `9a`.
    public init?(_ text: String) {
        guard text.utf8.count == 2, let number = UInt8(text, radix: 16) else { return nil }
        self.init(rawValue: number)
    }

    private init(known rawValue: UInt8) { self.rawValue = rawValue }

    /// PIV Authentication: the PIN once after the card was plugged in.
    public static let authentication = PIVSlot(known: 0x9a)
    /// Digital Signature: the PIN at each use.
    public static let signature = PIVSlot(known: 0x9c)
    /// Key Management: the PIN once; for opening what was sealed.
    public static let keyManagement = PIVSlot(known: 0x9d)
    /// Card Authentication: no PIN.
    public static let cardAuthentication = PIVSlot(known: 0x9e)

    /// `CKA_ID`, one byte: 1 = 9a, 2 = 9c, 3 = 9d, 4 = 9e, 5…24 = 82…95 (ykcs11, section 3.1 of the reference).
    var id: Data {
        switch rawValue {
        case 0x9a: Data([1])
        case 0x9c: Data([2])
        case 0x9d: Data([3])
        case 0x9e: Data([4])
        default: Data([rawValue - 0x82 + 5])
        }
    }

    /// Where signing keys of a policy may be made, in the order in which they are tried.
    static func candidates(for policy: AccessPolicy) -> [PIVSlot] {
        let retired = (0x82...0x95).map { PIVSlot(known: $0) }
        return switch (policy.requirement, policy.reuseSeconds) {
        case (.none, _): [.cardAuthentication]
        case (_, 0): [.signature, .authentication] + retired
        default: [.authentication] + retired
        }
    }

    public var description: String { String(rawValue, radix: 16) }
}
