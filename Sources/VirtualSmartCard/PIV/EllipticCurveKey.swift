internal import Crypto
internal import X509

/// A private key of the card.
enum EllipticCurveKey {
    case p256(P256.Signing.PrivateKey)
    case p384(P384.Signing.PrivateKey)

    /// The key types with their numbers in commands (SP 800-78-4 table 6-2).
    enum Algorithm: UInt8 {
        case p256 = 0x11
        case p384 = 0x14

        /// The length of a scalar or coordinate in bytes.
        var width: Int { self == .p256 ? 32 : 48 }
    }

    /// - Parameter scalar: 32 or 48 bytes, high byte first.
    /// - Throws: ``StatusWord/incorrectData`` if it is not a private key of the curve.
    init(_ algorithm: Algorithm, scalar: [UInt8]) throws(StatusWord) {
        do {
            switch algorithm {
            case .p256: self = .p256(try P256.Signing.PrivateKey(rawRepresentation: scalar))
            case .p384: self = .p384(try P384.Signing.PrivateKey(rawRepresentation: scalar))
            }
        } catch {
            throw .incorrectData
        }
    }

    /// Generates a key.
    ///
    /// - Throws: ``StatusWord/internalError`` if 32 random values are not valid keys. Each is invalid with a
    ///   probability of at most 2⁻³².
    static func generate(_ algorithm: Algorithm, random: (Int) -> [UInt8]) throws(StatusWord) -> EllipticCurveKey {
        for _ in 0..<32 {
            if let key = try? EllipticCurveKey(algorithm, scalar: random(algorithm.width)) { return key }
        }
        throw .internalError
    }

    var algorithm: Algorithm {
        switch self {
        case .p256: .p256
        case .p384: .p384
        }
    }

    /// 04 and both coordinates: 65 or 97 bytes.
    var publicPoint: [UInt8] {
        switch self {
        case .p256(let key): Array(key.publicKey.x963Representation)
        case .p384(let key): Array(key.publicKey.x963Representation)
        }
    }

    var certificateKey: Certificate.PrivateKey {
        switch self {
        case .p256(let key): Certificate.PrivateKey(key)
        case .p384(let key): Certificate.PrivateKey(key)
        }
    }

    /// Signs with ECDSA.
    ///
    /// - Parameter digest: The digest. If it is longer than the curve's order, its leftmost bytes are used.
    /// - Returns: The signature in DER.
    func sign(_ digest: [UInt8]) throws(StatusWord) -> [UInt8] {
        let digest = RawDigest(digest, width: algorithm.width)
        do {
            switch self {
            case .p256(let key): return Array(try key.signature(for: digest).derRepresentation)
            case .p384(let key): return Array(try key.signature(for: digest).derRepresentation)
            }
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
            switch self {
            case .p256(let key):
                let own = try P256.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
                let peer = try P256.KeyAgreement.PublicKey(x963Representation: point)
                return try own.sharedSecretFromKeyAgreement(with: peer).withUnsafeBytes { Array($0) }
            case .p384(let key):
                let own = try P384.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
                let peer = try P384.KeyAgreement.PublicKey(x963Representation: point)
                return try own.sharedSecretFromKeyAgreement(with: peer).withUnsafeBytes { Array($0) }
            }
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

    /// - Parameter width: The length of the curve's scalars in bytes. Longer digests are cut (FIPS 186-4 section 6.4);
    ///   shorter ones get leading zeros.
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
