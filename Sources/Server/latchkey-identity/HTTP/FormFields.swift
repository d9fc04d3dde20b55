import FoundationEssentials
import HTTPTypes
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import NIOCore

/// The fields of a form or a query (`application/x-www-form-urlencoded`), parsed strictly.
struct FormFields: Sendable {
    static let maximumFields = 100

    private var values: [String: [String]] = [:]

    /// - Returns: nil if the text is not form-encoded UTF-8, contains a NUL, or has more than
    ///   ``maximumFields`` fields.
    init?(_ encoded: some StringProtocol) {
        let pairs = encoded.split(separator: "&")
        guard pairs.count <= Self.maximumFields else { return nil }
        for pair in pairs {
            // SQLite cuts a bound text at a NUL, so that a lookup would use a different text than
            // the checks.
            guard let (name, value) = FormEncoding.decode(pair)?.first,
                !(name + value).utf8.contains(0)
            else {
                return nil
            }
            values[name, default: []].append(value)
        }
    }

    /// The field's value; nil if it is absent, empty (RFC 6749 section 3.1) or repeated.
    subscript(name: String) -> String? {
        guard let all = values[name], all.count == 1, let value = all.first, !value.isEmpty else {
            return nil
        }
        return value
    }

    /// Whether there is such a field, also an empty one.
    func contains(_ name: String) -> Bool { values[name] != nil }

    /// The name of a repeated field, which OAuth forbids (RFC 6749 section 3.1).
    var repeatedField: String? { values.filter { $0.value.count > 1 }.keys.min() }

    /// The field's space-separated words, without duplicates.
    func words(_ name: String) -> [String] {
        var seen: Set<Substring> = []
        return self[name].map {
            $0.split(separator: " ").filter { seen.insert($0).inserted }.map(String.init)
        } ?? []
    }
}

extension Request {
    /// The maximum length of a body in bytes.
    private static let maximumBody = 65_536

    /// The fields of the URL's query; nil if the query is malformed.
    var queryFields: FormFields? { FormFields(uri.query ?? "") }

    /// Reads the form in the body of a request to the token endpoint or of a page's form.
    ///
    /// - Throws: ``OAuthError`` if the body is not a form, or a field is repeated (RFC 6749
    ///   section 3.2); `NIOTooManyBytesError` if it is too long.
    func form() async throws -> FormFields {
        let type = headers[.contentType]?.split(separator: ";").first.map { $0.lowercased() }
        guard type == "application/x-www-form-urlencoded" else {
            throw OAuthError.invalidRequest("the body is not application/x-www-form-urlencoded")
        }
        let body = try await body.collect(upTo: Self.maximumBody)
        guard let fields = FormFields(String(buffer: body)) else {
            throw OAuthError.invalidRequest("the body is not a form")
        }
        if let name = fields.repeatedField {
            throw OAuthError.invalidRequest("\(name) is repeated")
        }
        return fields
    }

    /// Reads the JSON object in the body. Unknown members are ignored.
    ///
    /// - Throws: ``APIError``; `NIOTooManyBytesError` if the body is too long.
    func body<Body: Decodable>(_ type: Body.Type) async throws -> Body {
        let media = headers[.contentType]?.lowercased().split(separator: ";").map {
            $0.drop { $0 == " " }
        }
        guard media == ["application/json"] || media == ["application/json", "charset=utf-8"] else {
            throw APIError.invalidBody("the content type is not application/json")
        }
        let bytes = try await body.collect(upTo: Self.maximumBody)
        do {
            return try ReceivedJSON.decode(
                type, from: Data(bytes.readableBytesView),
                maximumSeparators: ReceivedJSON.requestSeparators)
        } catch {
            throw APIError.invalidBody(ReceivedJSON.reason(of: error))
        }
    }

    /// The same for an endpoint with OAuth's errors.
    func oauthBody<Body: Decodable>(_ type: Body.Type) async throws -> Body {
        do {
            return try await body(type)
        } catch let error as APIError {
            throw OAuthError.invalidRequest(error.message)
        }
    }
}

extension IdentityServices {
    /// The client that the form names. All clients are public (RFC 6749 section 2.1).
    func client(_ form: FormFields) throws(OAuthError) -> ClientConfiguration {
        guard let client = form["client_id"].flatMap(configuration.client) else {
            throw OAuthError("invalid_client", "invalid client ID")
        }
        return client
    }
}
