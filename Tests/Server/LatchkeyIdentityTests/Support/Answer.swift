import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Testing

/// A response of the server.
struct Answer: Sendable {
    let status: Int
    let headers: HTTPFields
    let body: String

    var json: JSONValue {
        get throws { try JSONDecoder().decode(JSONValue.self, from: Data(body.utf8)) }
    }

    /// The value of a hidden field of a form on the page.
    func hiddenField(_ name: String) throws -> String {
        let parts = body.split(separator: "name=\"\(name)\" value=\"", maxSplits: 1)
        try #require(parts.count == 2, "no field \(name) on the page")
        return String(parts[1].prefix { $0 != "\"" })
    }

    /// A query parameter of the redirect.
    func redirectParameter(_ name: String) throws -> String? {
        let location = try #require(
            headers[.location], "not a redirect: \(status) \(body.prefix(200))")
        return URLComponents(string: location)?.queryItems?.first { $0.name == name }?.value
    }

    /// Expects exactly this error of the token endpoint.
    func expectRefusal(
        _ status: Int, _ error: String, _ description: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(self.status == status, "\(body)", sourceLocation: sourceLocation)
        #expect(headers[.contentType] == "application/json", sourceLocation: sourceLocation)
        let expected = JSONValue.object([
            "error": .string(error), "error_description": .string(description),
        ])
        #expect(try json == expected, sourceLocation: sourceLocation)
    }

    /// Expects 200 and returns the JSON.
    @discardableResult
    func success(sourceLocation: SourceLocation = #_sourceLocation) throws -> JSONValue {
        try #require(status == 200, "\(status) \(body)", sourceLocation: sourceLocation)
        return body.isEmpty ? .null : try json
    }
}
