internal import Crypto
internal import FoundationEssentials
internal import X509

/// A private key of the card.
struct EllipticCurveKey: Sendable {
    /// The key types with their numbers in commands (SP 800-78-4 table 6-2).
    enum Algorithm: UInt8 {
        case p256 = 0x11
        case p384 = 0x14

        /// The length of a scalar or coordinate in bytes.
        var width: Int { self == .p256 ? 32 : 48 }
    }

    let algorithm: Algorithm
    /// 04 and both coordinates: 65 or 97 bytes.
    let publicPoint: [UInt8]
    let certificateKey: Certificate.PrivateKey
    private let signature: @Sendable (RawDigest) throws -> Data
    private let sharedSecret: @Sendable (_ point: [UInt8]) throws -> SharedSecret

    init(_ key: P256.Signing.PrivateKey) {
        algorithm = .p256
        publicPoint = Array(key.publicKey.x963Representation)
        certificateKey = Certificate.PrivateKey(key)
        signature = { try key.signature(for: $0).derRepresentation }
        sharedSecret = { point in
            try P256.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
                .sharedSecretFromKeyAgreement(with: P256.KeyAgreement.PublicKey(x963Representation: point))
        }
    }

    init(_ key: P384.Signing.PrivateKey) {
        algorithm = .p384
        publicPoint = Array(key.publicKey.x963Representation)
        certificateKey = Certificate.PrivateKey(key)
        signature = { try key.signature(for: $0).derRepresentation }
        sharedSecret = { point in
            try P384.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
                .sharedSecretFromKeyAgreement(with: P384.KeyAgreement.PublicKey(x963Representation: point))
        }
    }

    /// - Parameter scalar: 32 or 48 bytes, high byte first.
    /// - Throws: ``StatusWord/incorrectData`` if it is not a private key of the curve.
    init(_ algorithm: Algorithm, scalar: [UInt8]) throws(StatusWord) {
        do {
            switch algorithm {
            case .p256: self.init(try P256.Signing.PrivateKey(rawRepresentation: scalar))
            case .p384: self.init(try P384.Signing.PrivateKey(rawRepresentation: scalar))
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

    /// Signs with ECDSA.
    ///
    /// - Parameter digest: The digest. If it is longer than the curve's order, its leftmost bytes are used.
    /// - Returns: The signature in DER.
    func sign(_ digest: [UInt8]) throws(StatusWord) -> [UInt8] {
        do {
            return Array(try signature(RawDigest(digest, width: algorithm.width)))
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
