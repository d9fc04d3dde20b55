internal import Crypto
internal import CryptoExtras
public import FoundationEssentials
public import Latchkey

/// A key that a device signs its requests with.
///
/// Latchkey's own clients have P-256 keys and sign with ES256. RSA keys with RS256 are what the mobile SDKs of Authgear
/// have. There is no other kind: no symmetric key, and no unsigned request.
public enum DevicePublicKey: Hashable, Sendable {
    /// A key on P-256, for ES256 (RFC 7518 section 3.4).
    case es256(PublicKey)
    /// The modulus has 2048 to 4096 bits; both numbers are big-endian without leading zeros.
    case rs256(modulus: Data, exponent: Data)

    /// - Returns: nil unless the coordinates have 32 bytes each and are a point on P-256.
    init?(x: Data, y: Data) {
        guard x.count == 32, y.count == 32, let key = try? PublicKey(x963Representation: Data([4]) + x + y) else {
            return nil
        }
        self = .es256(key)
    }

    /// - Returns: nil unless the modulus has 256 to 512 bytes and the exponent is odd and of at most 4 bytes.
    init?(modulus: Data, exponent: Data) {
        let modulus = Data(modulus.drop { $0 == 0 })
        let exponent = Data(exponent.drop { $0 == 0 })
        guard
            (256...512).contains(modulus.count), (1...4).contains(exponent.count), exponent.last.map({ $0 & 1 }) == 1,
            (try? _RSA.Signing.PublicKey(n: modulus, e: exponent)) != nil
        else { return nil }
        self = .rs256(modulus: modulus, exponent: exponent)
    }

    /// The JOSE name of the signature algorithm: `ES256` or `RS256`.
    public var algorithm: String {
        switch self {
        case .es256: "ES256"
        case .rs256: "RS256"
        }
    }

    /// Whether the private half made `signature` over `message`.
    ///
    /// - Parameter signature: `r ‖ s`, 64 bytes, for ES256; as long as the modulus for RS256.
    public func isValid(_ signature: Data, for message: some DataProtocol) -> Bool {
        switch self {
        case .es256(let key):
            guard let signature = ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValid(signature, for: MessageDigest(sha256: message))
        case .rs256(let modulus, let exponent):
            guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent) else { return false }
            return key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: message, padding: .insecurePKCS1v1_5)
        }
    }

    /// The key in JSON.
    public func jwk(kid: KeyID) -> JWK {
        switch self {
        case .es256(let key): JWK(key, kid: kid)
        case .rs256(let modulus, let exponent): JWK(rsaModulus: modulus, exponent: exponent, kid: kid.rawValue)
        }
    }
}

extension DevicePublicKey {
    /// Reads a key that ``jwk(kid:)`` wrote.
    ///
    /// - Returns: nil when it is of another kind or damaged.
    public init?(_ jwk: JWK) {
        switch jwk.kty {
        case "EC":
            guard let key = try? jwk.publicKey() else { return nil }
            self = .es256(key)
        case "RSA":
            guard let n = jwk.n.flatMap(Base64URL.decode), let e = jwk.e.flatMap(Base64URL.decode) else { return nil }
            self.init(modulus: n, exponent: e)
        default: return nil
        }
    }
}
