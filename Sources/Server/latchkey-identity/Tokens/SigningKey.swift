import Crypto
import CryptoExtras
import FoundationEssentials
import Latchkey
import LatchkeyJOSE

/// A key that signs ID tokens.
struct SigningKey: Sendable {
    typealias Algorithm = ServerConfiguration.IDTokenAlgorithm

    private enum Material: Sendable {
        case es256(P256.Signing.PrivateKey)
        case rs256(_RSA.Signing.PrivateKey)
    }

    /// The public key, as in the key set.
    let jwk: JWK
    /// The key ID: 16 bytes of the public key's SHA-256 digest in base64url.
    let kid: String
    private let material: Material

    /// Generates a key.
    init(_ algorithm: Algorithm) throws {
        switch algorithm {
        case .es256: try self.init(material: .es256(P256.Signing.PrivateKey()))
        case .rs256: try self.init(material: .rs256(_RSA.Signing.PrivateKey(keySize: .bits2048)))
        }
    }

    /// Reads a private key in DER.
    init(_ algorithm: Algorithm, der: SecretBytes) throws {
        var bytes = der.withUnsafeBytes { Data($0) }
        defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
        switch algorithm {
        case .es256:
            try self.init(material: .es256(P256.Signing.PrivateKey(derRepresentation: bytes)))
        case .rs256:
            try self.init(material: .rs256(_RSA.Signing.PrivateKey(derRepresentation: bytes)))
        }
    }

    private init(material: Material) throws {
        self.material = material
        var jwk: JWK
        let publicKey: Data
        switch material {
        case .es256(let key):
            let point = try PublicKey(x963Representation: key.publicKey.x963Representation)
            jwk = JWK(point)
            publicKey = key.publicKey.derRepresentation
        case .rs256(let key):
            let numbers = try key.publicKey.getKeyPrimitives()
            jwk = JWK(
                rsaModulus: numbers.modulus, exponent: numbers.publicExponent, kid: nil)
            publicKey = key.publicKey.derRepresentation
        }
        kid = Base64URL.encode(MessageDigest(sha256: publicKey).bytes.prefix(16))
        jwk.kid = kid
        jwk.use = "sig"
        self.jwk = jwk
    }

    /// The private key in DER.
    var der: SecretBytes {
        var bytes =
            switch material {
            case .es256(let key): key.derRepresentation
            case .rs256(let key): key.derRepresentation
            }
        defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
        return SecretBytes(bytes)
    }

    /// A JSON Web Token with these claims (RFC 7515 section 7.1, RFC 7518 sections 3.3 and 3.4).
    func sign(_ claims: some Encodable) throws -> String {
        let header = ["alg": jwk.alg, "kid": kid, "typ": "JWT"]
        let signed = try [CanonicalJSON.encode(header), CanonicalJSON.encode(claims)]
            .map { Base64URL.encode($0) }.joined(separator: ".")
        let digest = SHA256.hash(data: Data(signed.utf8))
        let signature =
            switch material {
            case .es256(let key): try key.signature(for: digest).rawRepresentation
            case .rs256(let key):
                try key.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation
            }
        return "\(signed).\(Base64URL.encode(signature))"
    }
}
