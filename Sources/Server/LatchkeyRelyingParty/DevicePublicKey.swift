internal import Crypto
internal import CryptoExtras
public import FoundationEssentials
public import Latchkey
public import LatchkeyJOSE

/// The public key of a device.
///
/// Latchkey's clients have P-256 keys and sign with ES256. Authgear's mobile SDKs have RSA keys and
/// sign with RS256. Other algorithms are not supported.
public enum DevicePublicKey: Hashable, Sendable {
    /// A key on P-256, for ES256 (RFC 7518 section 3.4).
    case es256(PublicKey)
    /// An RSA key, for RS256 (RFC 7518 section 3.3). The modulus has 2048 to 4096 bits; both
    /// numbers are big-endian without leading zeros.
    case rs256(modulus: Data, exponent: Data)

    /// - Returns: nil unless the modulus has 256 to 512 bytes and the exponent is odd and has at
    ///   most 4 bytes.
    init?(modulus: Data, exponent: Data) {
        let modulus = Data(modulus.drop { $0 == 0 })
        let exponent = Data(exponent.drop { $0 == 0 })
        guard
            (256...512).contains(modulus.count), (1...4).contains(exponent.count),
            exponent.last.map({ $0 & 1 }) == 1,
            (try? _RSA.Signing.PublicKey(n: modulus, e: exponent)) != nil
        else { return nil }
        self = .rs256(modulus: modulus, exponent: exponent)
    }

    /// The JOSE name of the signature algorithm: `ES256` or `RS256`.
    package var algorithm: String {
        switch self {
        case .es256: "ES256"
        case .rs256: "RS256"
        }
    }

    /// Whether `signature` over `message` verifies.
    ///
    /// - Parameter signature: `r ‖ s`, 64 bytes, for ES256; the length of the modulus for RS256.
    package func isValid(_ signature: Data, for message: some DataProtocol) -> Bool {
        switch self {
        case .es256(let key):
            guard let signature = ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValid(signature, for: MessageDigest(sha256: message))
        case .rs256(let modulus, let exponent):
            guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent) else {
                return false
            }
            return key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: message,
                padding: .insecurePKCS1v1_5)
        }
    }

    /// The key as a JSON Web Key.
    public func jwk(kid: KeyID) -> JWK {
        switch self {
        case .es256(let key): JWK(key, kid: kid)
        case .rs256(let modulus, let exponent):
            JWK(rsaModulus: modulus, exponent: exponent, kid: kid.rawValue)
        }
    }
}

extension DevicePublicKey {
    /// Reads a key that ``jwk(kid:)`` returned.
    ///
    /// - Returns: nil if the key is of another kind or damaged.
    public init?(_ jwk: JWK) {
        switch jwk.kty {
        case "EC":
            guard let key = try? jwk.publicKey() else { return nil }
            self = .es256(key)
        case "RSA":
            guard let n = jwk.n.flatMap(Base64URL.decode), let e = jwk.e.flatMap(Base64URL.decode)
            else { return nil }
            self.init(modulus: n, exponent: e)
        default: return nil
        }
    }
}

/// An unverified JSON Web Key from a client (RFC 7517).
struct JSONWebKey: Hashable, Sendable {
    let keyID: String?
    let algorithm: String?
    let use: String?
    let hasPrivateMembers: Bool
    /// The key; nil if devices may not have keys of its kind.
    let publicKey: DevicePublicKey?

    /// Members that only private and symmetric keys have (RFC 7518 sections 6.2.2, 6.3.2 and 6.4).
    private static let privateMembers: Set = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]

    init(_ value: JSONValue) throws(BiometricRequestError) {
        guard let members = value.object, let type = members["kty"]?.string else {
            throw BiometricRequestError(.unparsable, "invalid JWK: not an object with a kty")
        }
        keyID = members["kid"]?.string
        algorithm = members["alg"]?.string
        use = members["use"]?.string
        hasPrivateMembers = !Self.privateMembers.isDisjoint(with: members.keys)
        switch type {
        case "EC":
            let x = try Self.bytes("x", of: members)
            let y = try Self.bytes("y", of: members)
            let isP256 = members["crv"]?.string == "P-256" && x.count == 32 && y.count == 32
            publicKey =
                isP256
                ? (try? PublicKey(x963Representation: Data([4]) + x + y)).map { .es256($0) } : nil
        case "RSA":
            publicKey = DevicePublicKey(
                modulus: try Self.bytes("n", of: members),
                exponent: try Self.bytes("e", of: members))
        default:
            publicKey = nil
        }
    }

    /// The reason why the key may not sign requests; nil if it may.
    var objection: String? {
        if hasPrivateMembers { return "the jwk has private members" }
        guard use ?? "sig" == "sig" else { return "the jwk is not for signatures" }
        guard let publicKey else { return "the jwk has an unsupported key type" }
        guard algorithm ?? publicKey.algorithm == publicKey.algorithm else {
            return "the jwk is for another algorithm"
        }
        return nil
    }

    private static func bytes(_ name: String, of members: [String: JSONValue])
        throws(BiometricRequestError) -> Data
    {
        guard let text = members[name]?.string, let bytes = Base64URL.decode(text), !bytes.isEmpty
        else {
            throw BiometricRequestError(.unparsable, "invalid JWK: \(name) is not base64url")
        }
        return bytes
    }
}
