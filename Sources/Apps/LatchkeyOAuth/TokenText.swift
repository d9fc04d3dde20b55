internal import FoundationEssentials
internal import Latchkey

/// Finds the refresh token in a token response that is not a JSON object.
///
/// The server has already replaced the old refresh token when it answers. Proxies and servers put
/// text before or after the object, put it into a list, or send a form.
enum TokenText {
    private static let name = TokenResponse.Name.refreshToken.rawValue

    /// The refresh token: the string after its name in JSON, or a field of a form.
    static func refreshToken(in body: Data) -> String? {
        guard let range = body.firstRange(of: Data("\"\(name)\"".utf8)) else {
            return FormEncoding.decodableFields(of: String(decoding: body, as: UTF8.self))
                .first { $0.name == name }?.value
        }
        let rest = body[range.upperBound...].drop(while: isBlank)
        guard rest.first == UInt8(ascii: ":") else { return nil }
        let value = rest.dropFirst().drop(while: isBlank)
        guard value.first == UInt8(ascii: "\"") else { return nil }
        var isEscaped = false
        let end = value.dropFirst().firstIndex { byte in
            defer { isEscaped = byte == UInt8(ascii: "\\") && !isEscaped }
            return byte == UInt8(ascii: "\"") && !isEscaped
        }
        return end.flatMap { try? JSONDecoder().decode(String.self, from: Data(value[...$0])) }
    }

    /// Whether the byte is whitespace in JSON (RFC 8259 section 2).
    private static func isBlank(_ byte: UInt8) -> Bool { " \t\r\n".utf8.contains(byte) }
}
