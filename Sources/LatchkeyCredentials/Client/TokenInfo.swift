internal import FoundationEssentials
public import Latchkey

/// What the server says about a token (RFC 7662 section 2.2).
public struct TokenInfo: Hashable, Sendable, Codable, HasClaims {
    /// Everything that was answered.
    public let claims: [String: JSONValue]
    /// Whether the token is good at the moment.
    public let isActive: Bool

    public init(from decoder: any Decoder) throws {
        claims = try [String: JSONValue](from: decoder)
        guard let active = claims["active"]?.bool else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: "there is no ‘active’"))
        }
        isActive = active
    }

    public func encode(to encoder: any Encoder) throws {
        try claims.encode(to: encoder)
    }
}
