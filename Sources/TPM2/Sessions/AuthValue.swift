internal import Crypto

/// What proves the right to use an entity: a secret of at most 32 bytes, without trailing zeros.
///
/// A TPM takes the zeros at the end off before it compares and keys an HMAC (TPM 2.0 Part 1 section "authValue"), so
/// they are taken off here as well: one hashed PIN in 256 ends in one. The bytes are cleared when the last copy goes.
public struct AuthValue: Sendable {
    let key: SymmetricKey

    /// No secret: what an entity has until it is given one.
    public static let empty = AuthValue(unchecked: SymmetricKey(data: [UInt8]()))

    /// - Returns: nil when more than 32 bytes are left without the zeros at the end.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        let count = (bytes.lastIndex { $0 != 0 } ?? -1) + 1
        guard count <= 32 else { return nil }
        key = SymmetricKey(data: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }

    private init(unchecked key: SymmetricKey) {
        self.key = key
    }

    /// The number of bytes, without zeros at the end.
    public var count: Int { key.bitCount / 8 }
}

extension AuthValue: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "‹authValue›" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
