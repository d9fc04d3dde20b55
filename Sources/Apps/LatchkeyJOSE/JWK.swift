package import FoundationEssentials
package import Latchkey

/// A public key in JSON (RFC 7517). It has no private members.
public struct JWK: Hashable, Sendable, Codable {
    /// The key type (RFC 7517 section 4.1): `EC`, `RSA` or `OKP`.
    package var kty: String
    /// The key's identifier (section 4.5).
    package var kid: String?
    /// The algorithm of the key (section 4.4).
    package var alg: String?
    /// The use of the key (section 4.2): `sig` or `enc`.
    package var use: String?
    /// The curve of an EC or OKP key, for example `P-256`.
    package var crv: String?
    /// The x coordinate of an EC key, or the OKP key, in base64url.
    package var x: String?
    /// The y coordinate of an EC key in base64url.
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

/// A server's public keys (RFC 7517 section 5). Keys that cannot be used are skipped.
public struct JWKS: Decodable, Sendable {
    /// The keys that can be used.
    public let keys: [JWK]
    /// The reasons why other keys of the set are not used.
    package let skipped: [SkippedKey]
    private let verificationKeys: [VerificationKey]

    private enum CodingKeys: String, CodingKey {
        case keys
    }

    package init(keys: [JWK]) {
        self.init(entries: keys.map(Result.success))
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(entries: try container.decode([Entry].self, forKey: .keys).map(\.key))
    }

    private init(entries: [Result<JWK, JWKFlaw>]) {
        var (keys, skipped, verificationKeys) = ([JWK](), [SkippedKey](), [VerificationKey]())
        for (index, entry) in entries.enumerated() {
            let kid = try? entry.get().kid
            do throws(JWKFlaw) {
                let key = try entry.get()
                try key.checkUse()
                verificationKeys.append(try key.verificationKey)
                keys.append(key)
            } catch {
                skipped.append(
                    SkippedKey(position: index + 1, kid: kid, reason: error.reason))
            }
        }
        (self.keys, self.skipped, self.verificationKeys) = (keys, skipped, verificationKeys)
    }

    private struct Entry: Decodable {
        let key: Result<JWK, JWKFlaw>

        init(from decoder: any Decoder) throws {
            do {
                key = .success(try JWK(from: decoder))
            } catch {
                key = .failure(JWKFlaw(error))
            }
        }
    }

    /// The keys that may have created a signature with this algorithm.
    ///
    /// - Returns: With a key ID, the keys that have it, and the keys without an ID. Without one,
    ///   all keys.
    func candidates(
        _ algorithm: SignatureAlgorithm, kid: String?
    ) -> (named: [VerificationKey], unnamed: [VerificationKey]) {
        let fitting = zip(keys, verificationKeys).filter { key, verificationKey in
            ["", algorithm.rawValue].contains(key.alg ?? "") && verificationKey.fits(algorithm)
        }
        guard let kid else { return (fitting.map(\.1), []) }
        return (
            fitting.filter { $0.0.kid == kid }.map(\.1),
            fitting.filter { $0.0.kid == nil }.map(\.1)
        )
    }
}

/// A key of a key set that is not used.
package struct SkippedKey: Hashable, Sendable {
    /// Its position in the set, from 1.
    let position: Int
    let kid: String?
    /// The cause, as a clause.
    let reason: String

    package init(position: Int, kid: String?, reason: String) {
        (self.position, self.kid, self.reason) = (position, kid, reason)
    }

    /// A text of one line for a log or an error.
    package var text: String {
        let name = kid.map { "‘\(String(oneLine: $0, limit: 64))’" } ?? "\(position)"
        return "key \(name): \(String(oneLine: reason, limit: 128))"
    }
}
