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

    /// Decodes `text`. Allocates only the result, because servers decode texts from clients.
    ///
    /// - Returns: nil for padding, for other characters, for an impossible length, and for text
    ///   whose unused bits are not zero, so that each byte string has exactly one encoding.
    package static func decode(_ text: some StringProtocol) -> Data? {
        let characters = text.utf8
        let (groups, rest) = characters.count.quotientAndRemainder(dividingBy: 4)
        guard rest != 1 else { return nil }
        var bytes = Data(count: groups * 3 + max(rest - 1, 0))
        let isCanonical = bytes.withUnsafeMutableBytes {
            (output: UnsafeMutableRawBufferPointer) -> Bool in
            // The bits that are not in the output yet, and their number.
            var (bits, held, position) = (UInt32(0), UInt32(0), 0)
            for character in characters {
                guard let digit = Self.digit(character) else { return false }
                bits = bits << 6 | UInt32(digit)
                held += 6
                guard held >= 8 else { continue }
                held -= 8
                output[position] = UInt8(truncatingIfNeeded: bits >> held)
                position += 1
                bits &= (1 << held) - 1
            }
            return bits == 0
        }
        return isCanonical ? bytes : nil
    }

    /// The value of a character, 0 to 63, or nil if the alphabet does not contain it.
    private static func digit(_ character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
