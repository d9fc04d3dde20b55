/// Finds the first character of a text that is not JSON (RFC 8259), for a person who corrects it.
/// The parser of FoundationEssentials does not say where it is, and accepts a comma before the end of
/// a list.
struct JSONSyntax {
    /// A place in a text; both numbers begin with 1.
    struct Place: Hashable {
        let line: Int
        /// In characters.
        let column: Int
    }

    /// The levels of nesting that the parser of FoundationEssentials accepts.
    private static let maximumDepth = 512

    private let text: [UInt8]
    private var position = 0

    private struct Flaw: Error {}

    /// - Returns: nil if the text is JSON.
    static func firstError(in text: [UInt8]) -> Place? {
        var syntax = JSONSyntax(text: text)
        do {
            try syntax.value(depth: 0)
            syntax.skipSpace()
            guard syntax.position < text.count else { return nil }
        } catch {}
        let before = text.prefix(syntax.position)
        let line = before.split(separator: 0x0A, omittingEmptySubsequences: false).last ?? []
        return Place(
            line: before.count { $0 == 0x0A } + 1,
            column: String(decoding: line, as: UTF8.self).count + 1)
    }

    private init(text: [UInt8]) { self.text = text }

    private var next: UInt8? { position < text.count ? text[position] : nil }

    private mutating func skipSpace() {
        while let byte = next, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { position += 1 }
    }

    private mutating func take(_ character: Unicode.Scalar) throws(Flaw) {
        guard next == UInt8(ascii: character) else { throw Flaw() }
        position += 1
    }

    private mutating func value(depth: Int) throws(Flaw) {
        guard depth < Self.maximumDepth else { throw Flaw() }
        skipSpace()
        switch next {
        case UInt8(ascii: "{"):
            try list(until: "}") { (syntax: inout JSONSyntax) throws(Flaw) in
                syntax.skipSpace()
                try syntax.string()
                syntax.skipSpace()
                try syntax.take(":")
                try syntax.value(depth: depth + 1)
            }
        case UInt8(ascii: "["):
            try list(until: "]") { (syntax: inout JSONSyntax) throws(Flaw) in
                try syntax.value(depth: depth + 1)
            }
        case UInt8(ascii: "\""): try string()
        case UInt8(ascii: "t"): try word("true")
        case UInt8(ascii: "f"): try word("false")
        case UInt8(ascii: "n"): try word("null")
        default: try number()
        }
    }

    private mutating func list(
        until end: Unicode.Scalar, _ element: (inout JSONSyntax) throws(Flaw) -> Void
    ) throws(Flaw) {
        position += 1
        skipSpace()
        guard next != UInt8(ascii: end) else { return position += 1 }
        while true {
            try element(&self)
            skipSpace()
            guard next == UInt8(ascii: ",") else { return try take(end) }
            position += 1
        }
    }

    private mutating func string() throws(Flaw) {
        try take("\"")
        while let byte = next, byte != UInt8(ascii: "\"") {
            guard byte >= 0x20 else { throw Flaw() }
            position += 1
            if byte == UInt8(ascii: "\\") { try escape() }
        }
        try take("\"")
    }

    private mutating func escape() throws(Flaw) {
        guard let byte = next, #""\/bfnrtu"#.utf8.contains(byte) else { throw Flaw() }
        position += 1
        guard byte == UInt8(ascii: "u") else { return }
        for _ in 0..<4 {
            guard let digit = next, Character(Unicode.Scalar(digit)).isHexDigit else {
                throw Flaw()
            }
            position += 1
        }
    }

    private mutating func word(_ word: String) throws(Flaw) {
        for scalar in word.unicodeScalars { try take(scalar) }
    }

    private mutating func number() throws(Flaw) {
        if next == UInt8(ascii: "-") { position += 1 }
        if next == UInt8(ascii: "0") { position += 1 } else { try digits() }
        if next == UInt8(ascii: ".") {
            position += 1
            try digits()
        }
        guard let byte = next, "eE".utf8.contains(byte) else { return }
        position += 1
        if let sign = next, "+-".utf8.contains(sign) { position += 1 }
        try digits()
    }

    private mutating func digits() throws(Flaw) {
        guard let first = next, (0x30...0x39).contains(first) else { throw Flaw() }
        while let digit = next, (0x30...0x39).contains(digit) { position += 1 }
    }
}
