/// Which YubiKey a card pretends to be.
public struct CardProfile: Hashable, Sendable {
    /// The firmware that it behaves like.
    public let firmware: Firmware
    /// The serial number that it gives.
    public let serialNumber: UInt32
    /// The kind of management key after a reset.
    public let managementKeyAlgorithm: ManagementKeyAlgorithm

    /// - Parameter managementKeyAlgorithm: By default what that firmware leaves the factory with: AES-192 from 5.7 on,
    ///   Triple DES before.
    public init(
        firmware: Firmware = Firmware(5, 4, 3), serialNumber: UInt32 = 12_345_678,
        managementKeyAlgorithm: ManagementKeyAlgorithm? = nil
    ) {
        self.firmware = firmware
        self.serialNumber = serialNumber
        self.managementKeyAlgorithm =
            managementKeyAlgorithm ?? (firmware.isFifthSeventh ? .aes192 : .tripleDES)
    }

    /// The PIN after a reset.
    public static let defaultPIN = "123456"
    /// The PUK after a reset.
    public static let defaultPUK = "12345678"

    /// The card's answer to a reset: that of a YubiKey 5 on USB.
    public static let answerToReset: [UInt8] = [
        0x3B, 0xFD, 0x13, 0x00, 0x00, 0x81, 0x31, 0xFE, 0x15, 0x80, 0x73, 0xC0, 0x21, 0xC0, 0x57, 0x59, 0x75, 0x62,
        0x69, 0x4B, 0x65, 0x79, 0x40,
    ]

    /// The serial number, high byte first, as the card tells it.
    var serialBytes: [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: serialNumber >> (24 - 8 * $0)) } }
}
