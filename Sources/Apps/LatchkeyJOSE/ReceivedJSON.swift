package import FoundationEssentials

/// JSON from outside of this process: of a client, of a server, or in a configuration file. It is
/// refused before it is parsed if an object repeats a member's name, or if it has too many values.
///
/// Parsers choose different members of a repeated name, so that two programs would read different
/// values (RFC 7515 section 4, RFC 7517 section 4, RFC 7519 section 4).
package enum ReceivedJSON {
    /// The reason why JSON is refused before it is parsed.
    package enum Flaw: Error, Hashable, Sendable {
        /// It has too many values.
        case tooComplex
        /// An object has two members with this name.
        case repeatedName(String)
        /// It is not UTF-8, the name of a member is malformed, or an object or array ends with a
        /// comma.
        case malformed
    }

    /// The reason why ``decode(_:from:maximumSeparators:)`` threw an error, for a user: a clause
    /// that names the member.
    package static func reason(of error: any Error) -> String {
        func name(_ path: [any CodingKey]) -> String {
            path.isEmpty
                ? "the JSON"
                : "‘\(path.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: "."))’"
        }
        return switch error {
        case Flaw.tooComplex: "the JSON has too many values"
        case Flaw.repeatedName(let member): "‘\(member)’ is repeated"
        case Flaw.malformed: "the text is not valid JSON"
        case DecodingError.keyNotFound(let key, let context):
            "\(name(context.codingPath + [key])) is missing"
        case DecodingError.typeMismatch(_, let context):
            "\(name(context.codingPath)) has the wrong type"
        case DecodingError.valueNotFound(_, let context): "\(name(context.codingPath)) is null"
        case DecodingError.dataCorrupted(let context) where context.codingPath.isEmpty:
            "the text is not valid JSON"
        case DecodingError.dataCorrupted(let context):
            "\(name(context.codingPath)) has an invalid value"
        default: "the text cannot be decoded"
        }
    }

    /// Decodes JSON.
    ///
    /// - Parameter maximumSeparators: The maximum number of the characters `[`, `{`, `,` and `:`
    ///   outside of strings. The parser needs about 100 bytes and 3 µs for each value, so that
    ///   64 KiB of `[0,0,…` would cost a server megabytes and about 80 ms, more than the signatures
    ///   of a request.
    /// - Throws: ``Flaw``, or the error of the parser.
    package static func decode<Value: Decodable>(
        _ type: Value.Type, from json: Data, maximumSeparators: Int = .max
    ) throws -> Value {
        var scanner = NameScanner(separatorsLeft: maximumSeparators)
        try scanner.scan(Array(json))
        return try JSONDecoder().decode(type, from: json)
    }
}

/// Finds repeated names. The parser checks the syntax afterwards, except commas before the end of an
/// object or array, which it accepts.
private struct NameScanner {
    var separatorsLeft: Int
    /// The names of each object that contains the position; nil for an array.
    private var containers: [Set<String>?] = []
    /// Whether a string at the position is a member's name.
    private var isNameNext = false
    /// Whether the last character before the position, other than white space, is a comma.
    private var isAfterComma = false

    init(separatorsLeft: Int) { self.separatorsLeft = separatorsLeft }

    mutating func scan(_ json: [UInt8]) throws(ReceivedJSON.Flaw) {
        // The parser also reads UTF-16 and UTF-32, which contain NUL.
        guard !json.contains(0) else { throw .malformed }
        var position = json.startIndex
        while position < json.endIndex {
            switch json[position] {
            case UInt8(ascii: "\""):
                let end = Self.end(ofStringAt: position, in: json)
                if isNameNext { try add(json[position..<end]) }
                position = end
                isAfterComma = false
                continue
            case UInt8(ascii: "{"):
                containers.append([])
                isNameNext = true
                try countSeparator()
            case UInt8(ascii: "["):
                containers.append(nil)
                isNameNext = false
                try countSeparator()
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                guard !isAfterComma else { throw .malformed }
                _ = containers.popLast()
                isNameNext = false
            case UInt8(ascii: ","):
                isNameNext = containers.last.map { $0 != nil } ?? false
                try countSeparator()
            case UInt8(ascii: ":"): try countSeparator()
            default: break
            }
            if ![0x09, 0x0A, 0x0D, 0x20].contains(json[position]) {
                isAfterComma = json[position] == UInt8(ascii: ",")
            }
            position += 1
        }
    }

    private mutating func countSeparator() throws(ReceivedJSON.Flaw) {
        separatorsLeft -= 1
        guard separatorsLeft >= 0 else { throw .tooComplex }
    }

    /// The index after the closing quote.
    private static func end(ofStringAt start: Int, in json: [UInt8]) -> Int {
        var position = start + 1
        while position < json.endIndex, json[position] != UInt8(ascii: "\"") {
            position += json[position] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(position + 1, json.endIndex)
    }

    /// Adds a name, which is compared without escapes.
    ///
    /// - Parameter quoted: The name as in the JSON.
    private mutating func add(_ quoted: ArraySlice<UInt8>) throws(ReceivedJSON.Flaw) {
        isNameNext = false
        var name = String(decoding: quoted.dropFirst().dropLast(), as: UTF8.self)
        if quoted.contains(UInt8(ascii: "\\")) {
            guard let plain = try? JSONDecoder().decode(String.self, from: Data(quoted)) else {
                throw .malformed
            }
            name = plain
        }
        let last = containers.endIndex - 1
        guard containers[last]?.insert(name).inserted == true else { throw .repeatedName(name) }
    }
}
