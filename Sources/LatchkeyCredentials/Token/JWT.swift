internal import FoundationEssentials
public import Latchkey

/// A signed JSON Web Token in compact form (RFC 7519), decoded. Who signed it is decided by ``IDTokenValidator``.
public struct JWT: Hashable, Sendable, HasClaims {
    /// The compact form: three parts in base64url.
    public let rawValue: String
    public let claims: [String: JSONValue]

    /// - Returns: nil unless the text is a compact JWS whose payload is a JSON object.
    public init?(_ compact: String) {
        guard
            let parts = JWS.parse(compact),
            let claims = try? JSONDecoder().decode([String: JSONValue].self, from: parts.payload)
        else { return nil }
        rawValue = compact
        self.claims = claims
    }
}

extension JWT: CustomStringConvertible, CustomReflectable {
    public var description: String { "‹JWT›" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
