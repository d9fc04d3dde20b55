internal import FoundationEssentials
internal import LatchkeyJOSE

/// The claims of an ID token (OpenID Connect Core section 2). Decoding does not verify the token;
/// ``IDTokenValidator`` does.
package struct IDToken: Decodable, Hashable, Sendable {
    package let iss: String
    package let sub: String
    package let aud: [String]
    package let azp: String?
    package let exp: Double
    package let iat: Double
    package let nbf: Double?
    package let nonce: String?
    package let atHash: String?
    package let cHash: String?
    package let dsHash: String?
    /// When the user logged in, by the server's clock; seconds since 1970.
    package let authTime: Double?

    private enum CodingKeys: String, CodingKey {
        case iss, sub, aud, azp, exp, iat, nbf, nonce
        case atHash = "at_hash"
        case cHash = "c_hash"
        case dsHash = "ds_hash"
        case authTime = "auth_time"
    }

    /// Reads the claims of a token.
    ///
    /// - Throws: ``IDTokenFlaw``: `criticalExtension`, or `unreadable` unless the text is a compact
    ///   JWS whose payload has the required claims.
    init(compact: String) throws(IDTokenFlaw) {
        let payload = try IDTokenFlaw.translating { () throws(JWSFlaw) in
            try ReceivedJWS(compact).payloadJSON
        }
        guard let token = try? JSONDecoder().decode(IDToken.self, from: payload) else {
            throw .unreadable
        }
        self = token
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        iss = try container.decode(String.self, forKey: .iss)
        sub = try container.decode(String.self, forKey: .sub)
        if let one = try? container.decode(String.self, forKey: .aud) {
            aud = [one]
        } else {
            aud = try container.decode([String].self, forKey: .aud)
        }
        // A claim that is `null` is malformed, not absent.
        func text(_ key: CodingKeys) throws -> String? {
            container.contains(key) ? try container.decode(String.self, forKey: key) : nil
        }
        azp = try text(.azp)
        exp = try container.decode(Double.self, forKey: .exp)
        iat = try container.decode(Double.self, forKey: .iat)
        nbf = try container.decodeIfPresent(Double.self, forKey: .nbf)
        nonce = try text(.nonce)
        atHash = try text(.atHash)
        cHash = try text(.cHash)
        dsHash = try text(.dsHash)
        authTime = try container.decodeIfPresent(Double.self, forKey: .authTime)
        guard Self.isSubject(sub) else {
            throw DecodingError.dataCorruptedError(
                forKey: .sub, in: container, debugDescription: "not a user id")
        }
    }

    /// Whether the text can be a user's id: 1 to 255 visible ASCII characters (OpenID Connect Core
    /// section 2).
    package static func isSubject(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count) && text.isVisibleASCII
    }
}
