internal import Crypto
internal import CryptoExtras
package import FoundationEssentials
internal import Latchkey

/// The algorithms of signatures that Latchkey verifies (RFC 7518 section 3.1, RFC 8037, RFC 9864).
package enum SignatureAlgorithm: String, CaseIterable, Sendable {
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case edDSA = "EdDSA"
    case ed25519 = "Ed25519"

    /// The names of all algorithms, for a text.
    package static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }

    /// The length of a signature in bytes (RFC 7518 section 3.4); nil if the algorithm is not ECDSA.
    var ecdsaSignatureLength: Int? {
        switch self {
        case .es256: 64
        case .es384: 96
        case .es512: 132
        case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512, .edDSA, .ed25519: nil
        }
    }

    /// The digest of the algorithm's hash function, which `at_hash` and its relatives use (OpenID
    /// Connect Core section 3.1.3.6). Ed25519 uses SHA-512.
    package func digest(_ bytes: some DataProtocol) -> Data {
        switch self {
        case .es256, .rs256, .ps256: Data(SHA256.hash(data: bytes))
        case .es384, .rs384, .ps384: Data(SHA384.hash(data: bytes))
        case .es512, .rs512, .ps512, .edDSA, .ed25519: Data(SHA512.hash(data: bytes))
        }
    }
}

/// A public key that can verify signatures.
enum VerificationKey: Sendable {
    case p256(P256.Signing.PublicKey)
    case p384(P384.Signing.PublicKey)
    case p521(P521.Signing.PublicKey)
    case ed25519(Curve25519.Signing.PublicKey)
    case rsa(_RSA.Signing.PublicKey)

    /// The minimum size of an RSA key in bits (RFC 7518 section 3.3).
    static let minimumRSABits = 2048

    /// Whether this kind of key makes signatures with the algorithm.
    func fits(_ algorithm: SignatureAlgorithm) -> Bool {
        switch (self, algorithm) {
        case (.p256, .es256), (.p384, .es384), (.p521, .es512), (.ed25519, .edDSA),
            (.ed25519, .ed25519), (.rsa, .rs256), (.rsa, .rs384), (.rsa, .rs512), (.rsa, .ps256),
            (.rsa, .ps384), (.rsa, .ps512):
            true
        default: false
        }
    }

    func isValid(_ signature: Data, over message: Data, _ algorithm: SignatureAlgorithm) -> Bool {
        switch (self, algorithm) {
        case (.p256(let key), .es256):
            (try? P256.Signing.ECDSASignature(rawRepresentation: signature)).map {
                key.isValidSignature($0, for: SHA256.hash(data: message))
            } ?? false
        case (.p384(let key), .es384):
            (try? P384.Signing.ECDSASignature(rawRepresentation: signature)).map {
                key.isValidSignature($0, for: SHA384.hash(data: message))
            } ?? false
        case (.p521(let key), .es512):
            (try? P521.Signing.ECDSASignature(rawRepresentation: signature)).map {
                key.isValidSignature($0, for: SHA512.hash(data: message))
            } ?? false
        case (.ed25519(let key), .edDSA), (.ed25519(let key), .ed25519):
            key.isValidSignature(signature, for: message)
        case (.rsa(let key), .rs256):
            key.isValidSignature(
                .init(rawRepresentation: signature), for: SHA256.hash(data: message),
                padding: .insecurePKCS1v1_5)
        case (.rsa(let key), .rs384):
            key.isValidSignature(
                .init(rawRepresentation: signature), for: SHA384.hash(data: message),
                padding: .insecurePKCS1v1_5)
        case (.rsa(let key), .rs512):
            key.isValidSignature(
                .init(rawRepresentation: signature), for: SHA512.hash(data: message),
                padding: .insecurePKCS1v1_5)
        case (.rsa(let key), .ps256):
            key.isValidSignature(
                .init(rawRepresentation: signature), for: SHA256.hash(data: message), padding: .PSS)
        case (.rsa(let key), .ps384):
            key.isValidSignature(
                .init(rawRepresentation: signature), for: SHA384.hash(data: message), padding: .PSS)
        case (.rsa(let key), .ps512):
            key.isValidSignature(
                .init(rawRepresentation: signature), for: SHA512.hash(data: message), padding: .PSS)
        default: false
        }
    }
}

extension JWK {
    /// Checks that the key may verify signatures. Some servers send an empty member for an absent
    /// one.
    func checkUse() throws(JWKFlaw) {
        guard ["", "sig"].contains(use ?? "") else {
            throw JWKFlaw("its ‘use’ is ‘\(use ?? "")’ and not ‘sig’")
        }
        guard let alg, !alg.isEmpty, SignatureAlgorithm(rawValue: alg) == nil else { return }
        throw JWKFlaw("its algorithm ‘\(alg)’ is not supported")
    }

    /// The key for verification.
    ///
    /// - Throws: ``JWKFlaw`` if Latchkey cannot use the key.
    var verificationKey: VerificationKey {
        get throws(JWKFlaw) {
            switch (kty, crv) {
            case ("RSA", _): return .rsa(try rsaKey)
            case ("EC", "P-256"):
                return .p256(try key { try P256.Signing.PublicKey(x963Representation: point(32)) })
            case ("EC", "P-384"):
                return .p384(try key { try P384.Signing.PublicKey(x963Representation: point(48)) })
            case ("EC", "P-521"):
                return .p521(try key { try P521.Signing.PublicKey(x963Representation: point(66)) })
            case ("OKP", "Ed25519"):
                return .ed25519(
                    try key { try Curve25519.Signing.PublicKey(rawRepresentation: bytes(x, "x")) })
            case ("EC", let curve), ("OKP", let curve):
                throw JWKFlaw("the curve ‘\(curve ?? "")’ is not supported")
            default: throw JWKFlaw("the key type ‘\(kty)’ is not supported")
            }
        }
    }

    private var rsaKey: _RSA.Signing.PublicKey {
        get throws(JWKFlaw) {
            let rsa = try key { try _RSA.Signing.PublicKey(n: bytes(n, "n"), e: bytes(e, "e")) }
            guard rsa.keySizeInBits >= VerificationKey.minimumRSABits else {
                throw JWKFlaw(
                    "the RSA key has \(rsa.keySizeInBits) bits, fewer than \(VerificationKey.minimumRSABits)"
                )
            }
            return rsa
        }
    }

    private func key<Key>(_ make: () throws -> Key) throws(JWKFlaw) -> Key {
        do {
            return try make()
        } catch let flaw as JWKFlaw {
            throw flaw
        } catch {
            throw JWKFlaw("its numbers are not a public key")
        }
    }

    /// An uncompressed point (SEC 1 section 2.3.3).
    private func point(_ count: Int) throws(JWKFlaw) -> Data {
        let (x, y) = (try bytes(x, "x"), try bytes(y, "y"))
        guard x.count == count, y.count == count else {
            throw JWKFlaw("‘x’ or ‘y’ does not have \(count) bytes")
        }
        return Data([4]) + x + y
    }

    private func bytes(_ text: String?, _ name: String) throws(JWKFlaw) -> Data {
        guard let text else { throw JWKFlaw("‘\(name)’ is missing") }
        guard let bytes = Base64URL.decode(text) else {
            throw JWKFlaw("‘\(name)’ is not base64url without padding")
        }
        return bytes
    }
}

/// Why a key of a key set cannot be used.
struct JWKFlaw: Error {
    /// The cause, as a clause.
    let reason: String

    init(_ reason: String) { self.reason = reason }

    init(_ error: any Error) {
        func name(_ path: [any CodingKey]) -> String { path.last?.stringValue ?? "" }
        self =
            switch error {
            case DecodingError.keyNotFound(let key, _): JWKFlaw("‘\(key.stringValue)’ is missing")
            case DecodingError.typeMismatch(_, let context),
                DecodingError.valueNotFound(_, let context):
                // The path of an entry of a set is [keys, index, member].
                context.codingPath.count < 3
                    ? JWKFlaw("it is not a JSON object")
                    : JWKFlaw("‘\(name(context.codingPath))’ is not a string")
            default: JWKFlaw("it can't be read")
            }
    }
}
