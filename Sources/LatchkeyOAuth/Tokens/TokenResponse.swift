internal import FoundationEssentials
package import Latchkey

/// The token endpoint's answer (RFC 6749 section 5.1).
package struct TokenResponse: Decodable, Sendable {
    package let accessToken: String
    /// Seconds that the access token lives.
    package let expiresIn: Int
    package let refreshToken: SecretBytes?
    package let idToken: String?

    private enum CodingKeys: String, CodingKey {
        case accessToken = "access_token"
        case tokenType = "token_type"
        case expiresIn = "expires_in"
        case refreshToken = "refresh_token"
        case idToken = "id_token"
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        accessToken = try container.decode(String.self, forKey: .accessToken)
        // A token goes into a header: nothing but visible ASCII may (RFC 6750 section 2.1).
        guard !accessToken.isEmpty, accessToken.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw DecodingError.dataCorruptedError(
                forKey: .accessToken, in: container, debugDescription: "not a bearer token")
        }
        guard try container.decode(String.self, forKey: .tokenType).lowercased() == "bearer" else {
            throw DecodingError.dataCorruptedError(
                forKey: .tokenType, in: container, debugDescription: "not a bearer token")
        }
        expiresIn = try container.decode(Int.self, forKey: .expiresIn)
        guard (1...31_536_000).contains(expiresIn) else {
            throw DecodingError.dataCorruptedError(
                forKey: .expiresIn, in: container, debugDescription: "not between a second and a year")
        }
        let refresh = try container.decodeIfPresent(String.self, forKey: .refreshToken)
        refreshToken = refresh.flatMap { $0.isEmpty ? nil : SecretBytes($0.utf8) }
        idToken = try container.decodeIfPresent(String.self, forKey: .idToken)
    }
}
