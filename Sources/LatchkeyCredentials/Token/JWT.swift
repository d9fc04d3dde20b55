internal import FoundationEssentials
public import Latchkey

/// A JSON Web Token in compact form (RFC 7519). Its claims can be read, which says nothing about who wrote them: see
/// ``OAuth2Client/validate(_:nonce:maxAge:)``.
public struct JWT: Hashable, Sendable, HasClaims {
    /// The three parts with dots between them.
    public let rawValue: String
    /// The payload's members.
    public let claims: [String: JSONValue]

    /// - Returns: nil unless the text is a compact JWS whose payload is a JSON object.
    public init?(_ rawValue: String) {
        guard
            let parts = JWS.parse(rawValue),
            let claims = try? JSONDecoder().decode([String: JSONValue].self, from: parts.payload)
        else { return nil }
        self.rawValue = rawValue
        self.claims = claims
    }
}

extension JWT: CustomStringConvertible, CustomReflectable {
    public var description: String { "‹JWT›" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
