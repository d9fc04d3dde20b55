package import FoundationEssentials

/// Base64 with the URL alphabet and no padding (RFC 4648 section 5, RFC 7515 section 2).
package enum Base64URL {
    /// The text for `bytes`.
    package static func encode(_ bytes: some DataProtocol) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for character in Data(bytes).base64EncodedData() {
            switch character {
            case UInt8(ascii: "+"): text.append(UInt8(ascii: "-"))
            case UInt8(ascii: "/"): text.append(UInt8(ascii: "_"))
            case UInt8(ascii: "="): break
            default: text.append(character)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes `text`.
    ///
    /// - Returns: nil for padding, for other characters, for an impossible length, and for text whose unused bits are not
    ///   zero, so that each byte string has exactly one encoding.
    package static func decode(_ text: some StringProtocol) -> Data? {
        var standard: [UInt8] = []
        standard.reserveCapacity(text.utf8.count + 3)
        for character in text.utf8 {
            switch character {
            case UInt8(ascii: "-"): standard.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): standard.append(UInt8(ascii: "/"))
            default: standard.append(character)
            }
        }
        while standard.count % 4 != 0 { standard.append(UInt8(ascii: "=")) }
        guard let bytes = Data(base64Encoded: Data(standard)), encode(bytes) == text else { return nil }
        return bytes
    }
}
