internal import FoundationEssentials
public import Latchkey

/// What the server says about the user (OpenID Connect Core section 5.3).
public struct UserInfo: Hashable, Sendable, Codable, HasClaims {
    /// All claims, `sub` included.
    public let claims: [String: JSONValue]

    public init(from decoder: any Decoder) throws {
        claims = try [String: JSONValue](from: decoder)
        guard claims["sub"]?.string?.isEmpty == false else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: "there is no ‘sub’"))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        try claims.encode(to: encoder)
    }
}
