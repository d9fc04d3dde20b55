package import FoundationEssentials

/// JSON from clients. It is refused before it is parsed if it has too many values.
///
/// The parser needs about 100 bytes and 3 µs for each value, so that 64 KiB of `[0,0,…` would cost
/// a server megabytes and about 80 ms, more than the signatures of a request.
package enum ClientJSON {
    /// The JSON has too many values.
    package struct TooComplex: Error {}

    /// Decodes JSON.
    ///
    /// - Parameter maximumSeparators: The maximum number of the characters `[`, `{`, `,` and `:`
    ///   outside of strings. A genuine request has fewer than 200, unless an app adds its own data.
    /// - Throws: ``TooComplex``, or the error of the parser.
    package static func decode<Value: Decodable>(
        _ type: Value.Type, from json: Data, maximumSeparators: Int = 512
    ) throws -> Value {
        guard hasFewSeparators(json, maximum: maximumSeparators) else { throw TooComplex() }
        return try JSONDecoder().decode(type, from: json)
    }

    private static func hasFewSeparators(_ json: Data, maximum: Int) -> Bool {
        var (left, isString, isEscaped) = (maximum, false, false)
        for byte in json {
            switch byte {
            case UInt8(ascii: "\"") where !isEscaped: isString.toggle()
            case UInt8(ascii: "["), UInt8(ascii: "{"), UInt8(ascii: ","), UInt8(ascii: ":"):
                if !isString { left -= 1 }
                guard left >= 0 else { return false }
            default: break
            }
            isEscaped = isString && !isEscaped && byte == UInt8(ascii: "\\")
        }
        return true
    }
}
