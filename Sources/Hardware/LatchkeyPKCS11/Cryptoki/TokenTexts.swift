internal import Latchkey

/// A text of Cryptoki's structures as the module wrote it. Two texts are equal if they differ only
/// in the blanks and NULs at their ends, with which modules pad them.
package struct TokenText: Hashable, Sendable {
    /// The bytes without the padding.
    let bytes: [UInt8]
    /// The bytes with NULs at the end, as p11-kit and its programs compare them.
    let printed: [UInt8]

    init(_ field: some Sequence<UInt8>) {
        func prefix(_ bytes: [UInt8], without padding: [UInt8]) -> [UInt8] {
            Array(bytes.prefix((bytes.lastIndex { !padding.contains($0) } ?? -1) + 1))
        }
        printed = prefix(Array(field), without: [0x20])
        bytes = prefix(printed, without: [0x20, 0])
    }

    init<Field>(field: Field) { self = withUnsafeBytes(of: field) { TokenText($0) } }

    /// The text for the user.
    package var text: String { bytes.withUnsafeBytes { String(blankPadded: $0) } }

    package static func == (left: TokenText, right: TokenText) -> Bool { left.bytes == right.bytes }
    package func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

/// The texts that identify a token (`CK_TOKEN_INFO`).
package struct TokenTexts: Hashable, Sendable {
    let label: TokenText
    let manufacturer: TokenText
    let model: TokenText
    let serial: TokenText

    /// Whether the serial number can identify the token.
    var hasSerial: Bool { serial.bytes.contains { ![UInt8(ascii: "0"), 0x20, 0].contains($0) } }

    /// Whether two tokens differ at most in their labels.
    func isSameDevice(as other: TokenTexts) -> Bool {
        manufacturer == other.manufacturer && model == other.model && serial == other.serial
    }
}

extension String {
    /// Reads a text field of Cryptoki's structures.
    init<Field>(blankPadded field: Field) {
        self = withUnsafeBytes(of: field) { String(blankPadded: $0) }
    }

    /// Reads text of Cryptoki's structures: a fixed number of bytes of UTF-8, padded with blanks
    /// and not terminated. Invalid UTF-8 and control characters become `?`, so that the text never
    /// gets longer.
    init(blankPadded bytes: UnsafeRawBufferPointer) {
        let text = bytes.prefix { $0 != 0 }
        let end = text.lastIndex { $0 != 0x20 }.map { $0 + 1 } ?? text.startIndex
        let line = String(oneLine: String(decoding: text[text.startIndex..<end], as: UTF8.self))
        self.init(String.UnicodeScalarView(line.unicodeScalars.map { $0 == "\u{FFFD}" ? "?" : $0 }))
    }
}
