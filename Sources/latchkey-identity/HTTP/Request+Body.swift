import FoundationEssentials
import HTTPTypes
import Hummingbird
import Latchkey
import LatchkeyRelyingParty
import NIOCore

extension Request {
    /// The form in the body.
    ///
    /// - Throws: ``OAuthError`` when it is not a form, too long, or has a field twice (RFC 6749 section 3.2).
    mutating func form(_ context: IdentityContext) async throws -> FormFields {
        let type = headers[.contentType]?.split(separator: ";").first.map { $0.lowercased() }
        guard type == "application/x-www-form-urlencoded" else {
            throw OAuthError.invalidRequest("the body is not application/x-www-form-urlencoded")
        }
        let body = try await body.collect(upTo: context.maxUploadSize)
        guard let fields = FormFields(String(buffer: body)) else {
            throw OAuthError.invalidRequest("the body is not a form")
        }
        if let name = fields.repeatedField { throw OAuthError.invalidRequest("\(name) is there more than once") }
        return fields
    }

    /// The JSON object in the body.
    ///
    /// - Throws: ``APIError``.
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
