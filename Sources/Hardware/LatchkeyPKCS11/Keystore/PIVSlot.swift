internal import FoundationEssentials
internal import Latchkey

/// A slot for a key on a PIV card (NIST SP 800-73-4 part 1 section 3).
public struct PIVSlot: Hashable, Sendable, CustomStringConvertible {
    /// The key reference, for example 0x9a.
    let reference: UInt8

    /// Reads two hexadecimal digits, for example `9a`.
    ///
    /// - Returns: nil for a slot that is not 9a, 9c, 9d, 9e, or 82 to 95.
    public init?(_ text: String) {
        guard text.utf8.count == 2, let number = UInt8(text, radix: 16),
            Self.references.contains(number)
        else {
            return nil
        }
        reference = number
    }

    /// All references in the order of their `CKA_ID`s, as ykcs11 and OpenSC number the slots: 1 =
    /// 9a, 2 = 9c, 3 = 9d, 4 = 9e, 5…24 = 82…95.
    private static let references: [UInt8] = [0x9a, 0x9c, 0x9d, 0x9e] + Array(0x82...0x95)

    private init(known reference: UInt8) { self.reference = reference }

    /// PIV Authentication: requires the PIN once after the card was plugged in.
    package static let authentication = PIVSlot(known: 0x9a)
    /// Digital Signature: requires the PIN for each use.
    package static let signature = PIVSlot(known: 0x9c)
    /// Key Management: requires the PIN once; for opening sealed secrets.
    package static let keyManagement = PIVSlot(known: 0x9d)
    /// Card Authentication: requires no PIN.
    package static let cardAuthentication = PIVSlot(known: 0x9e)

    /// Whether the slot is for retired key management keys, which a card need not have: 82 to 95.
    var isRetired: Bool { reference < 0x9a }

    /// The slot with a `CKA_ID`; nil if no slot has it.
    init?(id: Data) {
        guard id.count == 1, let first = id.first, (1...Self.references.count).contains(Int(first))
        else { return nil }
        reference = Self.references[Int(first) - 1]
    }

    /// `CKA_ID`, one byte.
    var id: Data { Data([UInt8((Self.references.firstIndex(of: reference) ?? 0) + 1)]) }

    /// The slots for signing keys of a policy, in the order in which they are tried.
    static func candidates(for policy: AccessPolicy) -> [PIVSlot] {
        let retired = references.dropFirst(4).map { PIVSlot(known: $0) }
        return switch (policy.requirement, policy.reuseSeconds) {
        case (.none, _): [.cardAuthentication]
        case (_, 0): [.signature, .authentication] + retired
        default: [.authentication] + retired
        }
    }

    /// Two hexadecimal digits, for example `9a`.
    public var description: String { String(reference, radix: 16) }
}
