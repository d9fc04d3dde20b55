import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

/// Signs and verifies ID tokens with the ES256 key in the database, which all servers on the
/// database share.
struct IDTokenSigner: Sendable {
    /// The name of the key's row.
    static let name = "signing key"

    /// The public key, as in the key set. Its ID is 16 bytes of its SHA-256 digest in base64url.
    let published: JWK
    private let key: P256.Signing.PrivateKey
    private let kid: String

    /// Loads the key. Creates it on first use.
    ///
    /// - Throws: ``ConfigurationError`` if the key file is missing or a wrong one.
    init(_ secrets: SecretStore) async throws {
        let der = try await secrets.privateKey(Self.name) { Self.newKey() }
        key = try SecretStore.reading(Self.name) {
            var bytes = der.withUnsafeBytes { Data($0) }
            defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
            return try P256.Signing.PrivateKey(derRepresentation: bytes)
        }
        kid = Base64URL.encode(
            MessageDigest(sha256: key.publicKey.derRepresentation).bytes.prefix(16))
        var jwk = JWK(try PublicKey(x963Representation: key.publicKey.x963Representation))
        (jwk.kid, jwk.use) = (kid, "sig")
        published = jwk
    }

    /// A new private key in DER.
    static func newKey() -> SecretBytes {
        var bytes = P256.Signing.PrivateKey().derRepresentation
        defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
        return SecretBytes(bytes)
    }

    /// A JSON Web Token with these claims (RFC 7515 section 7.1, RFC 7518 section 3.4).
    func sign(_ token: IDToken) throws -> String {
        let input = try JWS.signingInput(
            header: ["alg": "ES256", "kid": kid, "typ": "JWT"], payload: token)
        let signature = try key.signature(for: Data(input.utf8)).rawRepresentation
        return "\(input).\(Base64URL.encode(signature))"
    }

    /// The claims of a token that this server signed, expired or not.
    func verify(_ text: String) -> IDToken? {
        guard let jws = try? ReceivedJWS(text),
            (try? jws.verify(with: JWKS(keys: [published]))) != nil
        else { return nil }
        return try? JSONDecoder().decode(IDToken.self, from: jws.payloadJSON)
    }
}

/// The claims of an ID token (OpenID Connect Core section 2), including Authgear's.
struct IDToken: Codable, Sendable {
    /// Seconds from the issue.
    static let lifetime = 300

    let issuer: String
    let audience: [String]
    let subject: String
    let issuedAt: Int
    let expiresAt: Int
    let authTime: Int
    let sessionID: String
    let amr: [String]?
    let nonce: String?
    // Authgear's, which its SDKs require.
    var isAnonymous = false
    var isVerified = false
    var canReauthenticate = true

    enum CodingKeys: String, CodingKey {
        case issuer = "iss"
        case audience = "aud"
        case subject = "sub"
        case issuedAt = "iat"
        case expiresAt = "exp"
        case authTime = "auth_time"
        case sessionID = "sid"
        case amr, nonce
        case isAnonymous = "https://authgear.com/claims/user/is_anonymous"
        case isVerified = "https://authgear.com/claims/user/is_verified"
        case canReauthenticate = "https://authgear.com/claims/user/can_reauthenticate"
    }

    /// The grant of the session for which the token was issued.
    var grantID: String? { LoginGrant.id(ofSession: sessionID) }
}
