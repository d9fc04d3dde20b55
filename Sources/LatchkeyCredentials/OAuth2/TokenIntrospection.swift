internal import FoundationEssentials
public import Latchkey

/// What a server says about a token (RFC 7662 section 2.2).
public struct TokenIntrospection: Hashable, Sendable, HasClaims {
    /// Whether the token can be used now.
    public let isActive: Bool
    /// Everything that the server said, `active` included.
    public let claims: [String: JSONValue]

    init?(_ body: Data) {
        guard
            let claims = try? JSONDecoder().decode([String: JSONValue].self, from: body),
            let isActive = claims["active"]?.bool
        else { return nil }
        self.isActive = isActive
        self.claims = claims
    }
}
