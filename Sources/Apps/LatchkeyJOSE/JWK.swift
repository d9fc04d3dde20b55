package import FoundationEssentials
package import Latchkey

/// A public key in JSON (RFC 7517): P-256 for ES256, or RSA for RS256. It has no private members.
public struct JWK: Hashable, Sendable, Codable {
    /// The key type (RFC 7517 section 4.1): `EC` or `RSA`.
    package var kty: String
    /// The key's identifier (section 4.5).
    package var kid: String?
    /// The algorithm of the key (section 4.4).
    package var alg: String?
    /// The use of the key (section 4.2): `sig` or `enc`.
    package var use: String?
    /// The curve of an EC key: `P-256`.
    package var crv: String?
    /// The x coordinate of an EC key: 32 bytes in base64url.
    package var x: String?
    /// The y coordinate of an EC key: 32 bytes in base64url.
    package var y: String?
    /// The modulus of an RSA key in base64url.
    package var n: String?
    /// The exponent of an RSA key in base64url.
    package var e: String?

    /// Creates a JWK of a P-256 key for ES256.
    package init(_ key: PublicKey, kid: KeyID? = nil) {
        kty = "EC"
        self.kid = kid?.rawValue
        alg = "ES256"
        crv = "P-256"
        x = Base64URL.encode(key.x)
        y = Base64URL.encode(key.y)
    }

    /// Creates a JWK of an RSA key for RS256, from its modulus and exponent, big-endian.
    package init(rsaModulus: Data, exponent: Data, kid: String?) {
        kty = "RSA"
        self.kid = kid
        alg = "RS256"
        n = Base64URL.encode(rsaModulus)
        e = Base64URL.encode(exponent)
    }

    /// The P-256 key.
    ///
    /// - Throws: `CommonError` with code `damaged` unless this is an EC key on P-256 with both
    ///   coordinates.
    package func publicKey() throws(CommonError) -> PublicKey {
        guard
            kty == "EC", crv == "P-256",
            let x = x.flatMap(Base64URL.decode), let y = y.flatMap(Base64URL.decode), x.count == 32,
            y.count == 32
        else { throw .damaged("the JWK is not an EC key on P-256") }
        return try PublicKey(x963Representation: Data([4]) + x + y)
    }
}

/// A server's keys (RFC 7517 section 5).
package struct JWKSet: Decodable, Sendable {
    package let keys: [JWK]

    private enum CodingKeys: String, CodingKey {
        case keys
    }

    package init(keys: [JWK]) {
        self.keys = keys
    }

    /// Ignores keys of unknown kinds (RFC 7517 section 5).
    package init(from decoder: any Decoder) throws {
        keys = try decoder.container(keyedBy: CodingKeys.self).decode([Entry].self, forKey: .keys)
            .compactMap(\.key)
    }

    private struct Entry: Decodable {
        let key: JWK?

        init(from decoder: any Decoder) throws {
            key = try? JWK(from: decoder)
        }
    }

    /// The keys that may have created a signature with this algorithm and key ID.
    func candidates(alg: String, kid: String?) -> [JWK] {
        keys.filter { key in
            key.use ?? "sig" == "sig" && key.alg ?? alg == alg && (kid == nil || key.kid == kid)
        }
    }
}
