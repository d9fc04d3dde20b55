internal import Crypto
internal import FoundationEssentials
internal import X509

/// A private key on P-256 or P-384.
struct EllipticCurveKey: Sendable {
    let algorithm: KeyAlgorithm
    /// 04 and both coordinates: 65 or 97 bytes.
    let publicPoint: [UInt8]
    let certificateKey: Certificate.PrivateKey
    private let signature: @Sendable (RawDigest) throws -> (der: Data, raw: Data)
    private let sharedSecret: @Sendable (_ point: [UInt8]) throws -> SharedSecret

    init(_ key: P256.Signing.PrivateKey) {
        algorithm = .p256
        publicPoint = Array(key.publicKey.x963Representation)
        certificateKey = Certificate.PrivateKey(key)
        signature = { digest in
            let signature = try key.signature(for: digest)
            return (signature.derRepresentation, signature.rawRepresentation)
        }
        sharedSecret = { point in
            try P256.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
                .sharedSecretFromKeyAgreement(
                    with: P256.KeyAgreement.PublicKey(x963Representation: point))
        }
    }

    init(_ key: P384.Signing.PrivateKey) {
        algorithm = .p384
        publicPoint = Array(key.publicKey.x963Representation)
        certificateKey = Certificate.PrivateKey(key)
        signature = { digest in
            let signature = try key.signature(for: digest)
            return (signature.derRepresentation, signature.rawRepresentation)
        }
        sharedSecret = { point in
            try P384.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
                .sharedSecretFromKeyAgreement(
                    with: P384.KeyAgreement.PublicKey(x963Representation: point))
        }
    }

    /// - Parameter scalar: 32 or 48 bytes, high byte first.
    /// - Throws: ``StatusWord/incorrectData`` if it is not a private key of the curve.
    init(_ algorithm: KeyAlgorithm, scalar: [UInt8]) throws(StatusWord) {
        do {
            switch algorithm {
            case .p256: self.init(try P256.Signing.PrivateKey(rawRepresentation: scalar))
            case .p384: self.init(try P384.Signing.PrivateKey(rawRepresentation: scalar))
            case .rsa2048: throw StatusWord.incorrectData
            }
        } catch {
            throw .incorrectData
        }
    }

    /// Generates a key.
    ///
    /// - Throws: ``StatusWord/internalError`` if 32 random values are not valid keys. Each is
    ///   invalid with a probability of at most 2⁻³².
    static func generate(_ algorithm: KeyAlgorithm, random: (Int) -> [UInt8]) throws(StatusWord)
        -> EllipticCurveKey
    {
        for _ in 0..<32 {
            if let key = try? EllipticCurveKey(algorithm, scalar: random(algorithm.width)) {
                return key
            }
        }
        throw .internalError
    }

    /// Signs with ECDSA.
    ///
    /// - Parameter digest: The digest. If it is longer than the curve's order, its leftmost bytes
    ///   are used.
    /// - Returns: The signature in DER, and as r followed by s.
    func sign(_ digest: [UInt8]) throws(StatusWord) -> (der: [UInt8], raw: [UInt8]) {
        do {
            let signature = try signature(RawDigest(digest, width: algorithm.width))
            return (Array(signature.der), Array(signature.raw))
        } catch {
            throw .internalError
        }
    }

    /// Computes the shared secret of ECDH: the first coordinate, 32 or 48 bytes.
    ///
    /// - Parameter point: 04 and both coordinates.
    /// - Throws: ``StatusWord/incorrectData`` if the point is not on the curve.
    func agree(with point: [UInt8]) throws(StatusWord) -> [UInt8] {
        do {
            return try sharedSecret(point).withUnsafeBytes { Array($0) }
        } catch {
            throw .incorrectData
        }
    }
}

/// A digest that the host computed, in the form that swift-crypto signs.
struct RawDigest: Digest {
    /// The length for P-256. Signing uses the length of the bytes instead.
    static let byteCount = 32
    private let bytes: [UInt8]

    /// - Parameter width: The length of the curve's scalars in bytes. Longer digests are cut (FIPS
    ///   186-4 section 6.4); shorter ones get leading zeros.
    init(_ digest: [UInt8], width: Int) {
        let digest = digest.prefix(width)
        bytes = [UInt8](repeating: 0, count: width - digest.count) + digest
    }

    var description: String { "a digest of \(bytes.count) bytes" }

    func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try bytes.withUnsafeBytes(body)
    }

    func makeIterator() -> Array<UInt8>.Iterator { bytes.makeIterator() }
}
