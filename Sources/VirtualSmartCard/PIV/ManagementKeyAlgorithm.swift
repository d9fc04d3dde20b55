/// The kinds of management key, with the number that each has on the wire (SP 800-78-4 table 6-2).
public enum ManagementKeyAlgorithm: UInt8, CaseIterable, Sendable {
    /// Three-key Triple DES, 24 bytes.
    case tripleDES = 0x03
    /// AES, 16 bytes.
    case aes128 = 0x08
    /// AES, 24 bytes.
    case aes192 = 0x0A
    /// AES, 32 bytes.
    case aes256 = 0x0C

    /// The length of a key in bytes.
    public var keyLength: Int {
        switch self {
        case .aes128: 16
        case .tripleDES, .aes192: 24
        case .aes256: 32
        }
    }

    /// The length of a block, a witness and a challenge in bytes.
    var blockLength: Int { self == .tripleDES ? 8 : 16 }
}
