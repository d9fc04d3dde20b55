package import FoundationEssentials

/// The card that a virtual card emulates.
public struct CardProfile: Hashable, Sendable {
    /// The family of the card.
    package let model: CardModel
    /// The firmware version.
    public let firmware: Firmware
    /// The serial number.
    public let serialNumber: UInt32
    /// The algorithm of the factory's management key.
    public let managementKeyAlgorithm: ManagementKeyAlgorithm

    /// Creates the profile of a YubiKey.
    ///
    /// - Parameter managementKeyAlgorithm: By default that of the firmware: AES-192 since 5.7,
    ///   Triple DES before.
    public init(
        firmware: Firmware = Firmware(5, 4, 3), serialNumber: UInt32 = 12_345_678,
        managementKeyAlgorithm: ManagementKeyAlgorithm? = nil
    ) {
        model = .yubiKey
        self.firmware = firmware
        self.serialNumber = serialNumber
        self.managementKeyAlgorithm =
            managementKeyAlgorithm ?? (firmware < Firmware(5, 7, 0) ? .tripleDES : .aes192)
    }

    private init(_ model: CardModel, serialNumber: UInt32) {
        self.model = model
        firmware = Firmware(5, 7, 0)
        self.serialNumber = serialNumber
        managementKeyAlgorithm = .tripleDES
    }

    /// A PIV card of another manufacturer: PIV version 5.7.0, a Triple DES management key, the
    /// slots 9a 9c 9d 9e 82 83, P-256, P-384 and RSA keys, and no attestation. If the user does not
    /// touch it, the card answers 6600 after 30 seconds.
    package static func thirdPartyPIV(serialNumber: UInt32 = 12_345_678) -> CardProfile {
        CardProfile(.thirdPartyPIV, serialNumber: serialNumber)
    }

    /// An OpenPGP card with P-256 keys for signatures and authentication, and two PINs for OpenSC.
    /// PW1 is ``defaultPIN``, PW3 is ``defaultPUK``.
    package static func openPGP(serialNumber: UInt32 = 0) -> CardProfile {
        CardProfile(.openPGP, serialNumber: serialNumber)
    }

    /// Creates the card's applet in the factory state.
    ///
    /// - Parameter authority: The issuer of a YubiKey's attestations.
    package func makeApplet(authority: AttestationAuthority, environment: CardEnvironment = .system)
        -> any CardApplet
    {
        switch model {
        case .yubiKey, .thirdPartyPIV:
            PIVApplet(profile: self, authority: authority, environment: environment)
        case .openPGP: OpenPGPApplet(profile: self, environment: environment)
        }
    }

    /// The PIN after a reset.
    public static let defaultPIN = "123456"
    /// The PUK after a reset.
    public static let defaultPUK = "12345678"

    /// The serial number, high byte first, as in responses.
    var serialBytes: [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: serialNumber >> (24 - 8 * $0)) }
    }
}

/// A firmware version. Commands and features depend on it.
public struct Firmware: Comparable, Hashable, Sendable, LosslessStringConvertible {
    /// The major, minor and patch numbers.
    let bytes: [UInt8]

    /// Creates a version of three numbers.
    public init(_ major: UInt8, _ minor: UInt8, _ patch: UInt8) {
        bytes = [major, minor, patch]
    }

    /// Reads `5.4.3`.
    public init?(_ description: String) {
        let parts = description.split(separator: ".", omittingEmptySubsequences: false)
        bytes = parts.compactMap { UInt8($0) }
        guard parts.count == 3, bytes.count == 3 else { return nil }
    }

    public var description: String { bytes.map(String.init).joined(separator: ".") }

    public static func < (one: Firmware, other: Firmware) -> Bool {
        one.bytes.lexicographicallyPrecedes(other.bytes)
    }
}

/// The clock and random bytes of a card. Tests replace them.
package struct CardEnvironment: Sendable {
    let now: @Sendable () -> Date
    let randomBytes: @Sendable (_ count: Int) -> [UInt8]

    /// - Parameter randomBytes: Returns exactly the requested number of bytes.
    package init(
        now: @escaping @Sendable () -> Date,
        randomBytes: @escaping @Sendable (_ count: Int) -> [UInt8]
    ) {
        self.now = now
        self.randomBytes = randomBytes
    }

    /// The system's clock and random number generator.
    package static let system = CardEnvironment(
        now: { Date() },
        randomBytes: { count in
            var generator = SystemRandomNumberGenerator()
            return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        })
}
