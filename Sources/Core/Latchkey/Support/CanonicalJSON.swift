package import FoundationEssentials

/// JSON with sorted members and unescaped slashes, so that the same value always gives the same
/// bytes.
package enum CanonicalJSON {
    package static func encode(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
    }

    package static func text(_ value: some Encodable) throws -> String {
        String(decoding: try encode(value), as: UTF8.self)
    }

    package static func decode<Value: Decodable>(_ type: Value.Type = Value.self, from text: String)
        throws -> Value
    {
        try JSONDecoder().decode(type, from: Data(text.utf8))
    }
}
