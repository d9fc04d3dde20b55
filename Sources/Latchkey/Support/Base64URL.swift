package import FoundationEssentials

/// Base64 with the URL alphabet and no padding (RFC 4648 section 5, RFC 7515 section 2).
package enum Base64URL {
    /// The text for `bytes`.
    package static func encode(_ bytes: some DataProtocol) -> String {
        Data(bytes).base64EncodedString()
            .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// Decodes `text`.
    ///
    /// - Returns: nil for padding, for other characters, for an impossible length, and for text whose unused bits are not
    ///   zero, so that each byte string has exactly one encoding.
    package static func decode(_ text: some StringProtocol) -> Data? {
        let standard = String(text).replacing("-", with: "+").replacing("_", with: "/")
        let padding = String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
        guard let bytes = Data(base64Encoded: standard + padding), encode(bytes) == text else { return nil }
        return bytes
    }

    /// Whether the byte is in the URL alphabet.
    package static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
