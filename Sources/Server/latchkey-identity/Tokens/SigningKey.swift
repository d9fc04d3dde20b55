import Crypto
import CryptoExtras
import FoundationEssentials
import JWTKit
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
    let jwk: LatchkeyJOSE.JWK
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
        var jwk: LatchkeyJOSE.JWK
        let publicKey: Data
        switch material {
        case .es256(let key):
            let point = try PublicKey(x963Representation: key.publicKey.x963Representation)
            jwk = LatchkeyJOSE.JWK(point)
            publicKey = key.publicKey.derRepresentation
        case .rs256(let key):
            let numbers = try key.publicKey.getKeyPrimitives()
            jwk = LatchkeyJOSE.JWK(
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

    /// Adds the key under its ID.
    func add(to keys: JWTKeyCollection) async throws {
        let kid = JWKIdentifier(string: kid)
        switch material {
        case .es256(let key):
            await keys.add(ecdsa: try ECDSA.PrivateKey<P256>(backing: key), kid: kid)
        case .rs256(let key):
            await keys.add(
                rsa: try Insecure.RSA.PrivateKey(backing: key), digestAlgorithm: .sha256, kid: kid)
        }
    }
}
