import FoundationEssentials
import HTTPTypes
import Hummingbird
import LatchkeyJOSE
import LatchkeyRelyingParty
import NIOCore

/// The fields of a form or a query (`application/x-www-form-urlencoded`), parsed strictly.
struct FormFields: Sendable {
    private var values: [String: [String]] = [:]

    static let maximumFields = 100

    init() {}

    /// - Returns: nil if the text is not form-encoded UTF-8, contains a NUL, or has more than ``maximumFields`` fields.
    init?(_ encoded: some StringProtocol) {
        let pairs = encoded.split(separator: "&")
        guard pairs.count <= Self.maximumFields else { return nil }
        for pair in pairs {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decode(parts[0]), let value = Self.decode(parts.count > 1 ? parts[1] : "") else {
                return nil
            }
            values[name, default: []].append(value)
        }
    }

    /// The field's value; nil if it is absent, empty (RFC 6749 section 3.1) or repeated.
    subscript(name: String) -> String? {
        guard let all = values[name], all.count == 1, let value = all.first, !value.isEmpty else { return nil }
        return value
    }

    /// The name of a repeated field, which OAuth forbids (RFC 6749 section 3.1).
    var repeatedField: String? { values.filter { $0.value.count > 1 }.keys.min() }

    /// The field's space-separated words, without duplicates.
    func words(_ name: String) -> [String] {
        var seen: Set<Substring> = []
        return self[name].map { $0.split(separator: " ").filter { seen.insert($0).inserted }.map(String.init) } ?? []
    }

    /// Percent-encodes all bytes except ASCII letters, digits and `-._~`.
    static func encode(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let hex = String(byte, radix: 16, uppercase: true)
                result += "%" + (hex.count == 1 ? "0" : "") + hex
            }
        }
        return result
    }

    private static func decode(_ text: some StringProtocol) -> String? {
        var bytes: [UInt8] = []
        var rest = Substring(text).utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard
                    let high = rest.popFirst().flatMap(hexDigit), let low = rest.popFirst().flatMap(hexDigit)
                else { return nil }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        // SQLite cuts a bound text at a NUL, so that a lookup would use a different text than the checks.
        guard !bytes.contains(0) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map(UInt8.init)
    }
}

extension Request {
    /// Reads the form in the body.
    ///
    /// - Throws: ``OAuthError`` if the body is not a form or a field is repeated (RFC 6749 section 3.2);
    ///   `NIOTooManyBytesError` if it is too long.
    mutating func form(_ context: IdentityContext) async throws -> FormFields {
        let type = headers[.contentType]?.split(separator: ";").first.map { $0.lowercased() }
        guard type == "application/x-www-form-urlencoded" else {
            throw OAuthError.invalidRequest("the body is not application/x-www-form-urlencoded")
        }
        let body = try await body.collect(upTo: context.maxUploadSize)
        guard let fields = FormFields(String(buffer: body)) else {
            throw OAuthError.invalidRequest("the body is not a form")
        }
        if let name = fields.repeatedField { throw OAuthError.invalidRequest("\(name) is repeated") }
        return fields
    }

    /// Reads the JSON object in the body.
    ///
    /// - Throws: ``APIError``; `NIOTooManyBytesError` if the body is too long.
    mutating func jsonObject(_ context: IdentityContext) async throws -> [String: JSONValue] {
        let type = headers[.contentType]?.lowercased().split(separator: ";").map {
            $0.drop { $0 == " " }
        }
        guard let type, type == ["application/json"] || type == ["application/json", "charset=utf-8"] else {
            throw APIError.invalidContentType
        }
        let body = try await body.collect(upTo: context.maxUploadSize)
        guard
            let object = try? JSONDecoder().decode([String: JSONValue].self, from: Data(body.readableBytesView))
        else { throw APIError.invalidJSON }
        return object
    }

    /// The token of an `Authorization: Bearer` header (RFC 6750 section 2.1).
    var bearerToken: String? {
        guard let header = headers[.authorization], header.lowercased().hasPrefix("bearer ") else { return nil }
        let token = header.dropFirst(7).drop { $0 == " " }
        return token.isEmpty ? nil : String(token)
    }
}
