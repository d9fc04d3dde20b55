/// How a device proved who its user is, in the words of the claim `amr` (RFC 8176), separated by spaces.
enum DeviceAuthentication: String, Sendable, Codable {
    /// The biometric grant of Authgear.
    case biometric = "x_biometric"
    /// A key in hardware that signs when it gets its PIN.
    case easyAccess = "hwk pin"
    /// A key in hardware that signs without anybody: the device was authenticated, and nobody else.
    case background = "hwk"

    /// The values of the claim.
    var references: [String] { rawValue.split(separator: " ").map(String.init) }
}
