import Crypto
import CryptoExtras
import FoundationEssentials
import JWTKit
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

/// Signs ID tokens with a key in the database file, which only its owner can read.
struct IDTokenSigner: Sendable {
    /// The public key, as in the key set.
    let jwk: LatchkeyJOSE.JWK
    private let keys: JWTKeyCollection
    private let kid: JWKIdentifier

    /// Loads the key of the algorithm. Creates the key on first use.
    init(_ algorithm: ServerConfiguration.IDTokenAlgorithm, secrets: SecretStore) async throws {
        keys = JWTKeyCollection()
        switch algorithm {
        case .es256:
            let pem = try await secrets.value("id token key ES256") {
                Data(P256.Signing.PrivateKey().pemRepresentation.utf8)
            }
            let key = try P256.Signing.PrivateKey(pemRepresentation: String(decoding: pem, as: UTF8.self))
            let point = try PublicKey(x963Representation: key.publicKey.x963Representation)
            jwk = Self.signing(LatchkeyJOSE.JWK(point), key.publicKey.derRepresentation)
            kid = JWKIdentifier(string: jwk.kid ?? "")
            await keys.add(ecdsa: try ECDSA.PrivateKey<P256>(backing: key), kid: kid)
        case .rs256:
            let pem = try await secrets.value("id token key RS256") {
                Data(try _RSA.Signing.PrivateKey(keySize: .bits2048).pemRepresentation.utf8)
            }
            let key = try _RSA.Signing.PrivateKey(pemRepresentation: String(decoding: pem, as: UTF8.self))
            let numbers = try key.publicKey.getKeyPrimitives()
            jwk = Self.signing(
                LatchkeyJOSE.JWK(rsaModulus: numbers.modulus, exponent: numbers.publicExponent, kid: nil),
                key.publicKey.derRepresentation)
            kid = JWKIdentifier(string: jwk.kid ?? "")
            await keys.add(rsa: try Insecure.RSA.PrivateKey(backing: key), digestAlgorithm: .sha256, kid: kid)
        }
    }

    func sign(_ token: IDToken) async throws -> String {
        try await keys.sign(token, kid: kid)
    }

    /// The claims of a token that this server signed, expired or not.
    func verify(_ text: String) async -> IDToken? {
        try? await keys.verify(text, as: IDToken.self)
    }

    /// A JWK for signatures, named by 16 bytes of the key's SHA-256 digest.
    private static func signing(_ jwk: LatchkeyJOSE.JWK, _ publicKey: Data) -> LatchkeyJOSE.JWK {
        var jwk = jwk
        jwk.kid = Base64URL.encode(MessageDigest(sha256: publicKey).bytes.prefix(16))
        jwk.use = "sig"
        return jwk
    }
}

/// The claims of an ID token (OpenID Connect Core section 2), including Authgear's.
struct IDToken: JWTPayload {
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
    let isAnonymous: Bool
    let isVerified: Bool
    let canReauthenticate: Bool

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

    /// Checks nothing in addition to the signature: a token that is used as a hint may have expired.
    func verify(using algorithm: some JWTAlgorithm) {}
}
