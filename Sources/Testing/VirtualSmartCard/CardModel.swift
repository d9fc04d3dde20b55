/// A family of cards. The families answer some commands differently.
///
/// The third-party models behave like the CanoKey firmware (canokey-core 26dc6e8).
package enum CardModel: Hashable, Sendable {
    /// Yubico's PIV application.
    case yubiKey
    /// A PIV application that reports Yubico's version 5.7.0 and has some of Yubico's additions,
    /// but no attestation.
    case thirdPartyPIV
    /// An OpenPGP application 3.4 with keys for signatures and authentication.
    case openPGP

    /// The card's answer to a reset: that of a YubiKey 5 on USB, or that of a CanoKey.
    var answerToReset: [UInt8] {
        switch self {
        case .yubiKey:
            [
                0x3B, 0xFD, 0x13, 0x00, 0x00, 0x81, 0x31, 0xFE, 0x15, 0x80, 0x73, 0xC0, 0x21, 0xC0,
                0x57, 0x59, 0x75,
                0x62, 0x69, 0x4B, 0x65, 0x79, 0x40,
            ]
        case .thirdPartyPIV, .openPGP:
            [
                0x3B, 0xF7, 0x11, 0x00, 0x00, 0x81, 0x31, 0xFE, 0x65, 0x43, 0x61, 0x6E, 0x6F, 0x6B,
                0x65, 0x79, 0x99,
            ]
        }
    }

    /// How long a key waits for a touch.
    var touchTimeout: Duration { self == .yubiKey ? .seconds(15) : .seconds(30) }

    /// The status word if the user did not touch the card in time.
    var missingTouchStatus: StatusWord {
        self == .yubiKey ? .securityStatusNotSatisfied : .securityIssue
    }
}

/// The differences between PIV applications.
extension CardModel {
    /// Whether the card has all of Yubico's additions: attestation, moving keys, setting retry
    /// counters, AES management keys and the one-time-password application.
    var hasAllAdditions: Bool { self == .yubiKey }

    /// The key slot, if the card has it.
    func keySlot(_ reference: UInt8) -> KeySlot? {
        guard let slot = KeySlot(rawValue: reference) else { return nil }
        return self == .yubiKey || Self.thirdPartySlots.contains(slot) ? slot : nil
    }

    /// Whether the card stores a data object with this tag.
    func stores(_ tag: [UInt8]) -> Bool {
        self == .yubiKey || Self.thirdPartyObjects.contains(tag)
    }

    /// Whether the card generates keys of this type.
    func generates(_ algorithm: KeyAlgorithm) -> Bool {
        self == .thirdPartyPIV || algorithm != .rsa2048
    }

    /// The PIN policy of a key that is created without one.
    func defaultPINPolicy(of slot: KeySlot) -> PINPolicy {
        switch slot {
        case .signature where self == .yubiKey: .always
        case .cardAuthentication: .never
        default: .once
        }
    }

    private static let thirdPartySlots = Set(
        [0x9A, 0x9C, 0x9D, 0x9E, 0x82, 0x83].compactMap(KeySlot.init(rawValue:)))
    /// The slots' certificates, the cardholder's identifier, the card's capabilities and the
    /// objects that need the PIN (SP 800-73-4 Part 1 table 3).
    private static let thirdPartyObjects = Set(
        thirdPartySlots.map(\.certificateObject)
            + [0x02, 0x07, 0x09, 0x03, 0x08].map { [0x5F, 0xC1, $0] })
}
