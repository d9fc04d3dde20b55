internal import Crypto
internal import X509

/// A private key of the card.
enum EllipticCurveKey {
    case p256(P256.Signing.PrivateKey)
    case p384(P384.Signing.PrivateKey)

    /// The kinds of key, with the number that each has on the wire (SP 800-78-4 table 6-2).
    enum Algorithm: UInt8 {
        case p256 = 0x11
        case p384 = 0x14

        /// The length of a scalar or coordinate in bytes.
        var width: Int { self == .p256 ? 32 : 48 }
    }

    /// - Parameter scalar: 32 or 48 bytes, high byte first.
    /// - Throws: ``StatusWord/incorrectData`` when it is no private key of the curve.
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

    /// Makes a key of random bytes.
    ///
    /// - Throws: ``StatusWord/internalError`` when the randomness gives no key in many tries. One try fails with a
    ///   probability of 2⁻³² at most.
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
    /// - Parameter digest: The digest; the leftmost bytes count where it is longer than the curve.
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
    /// - Throws: ``StatusWord/incorrectData`` when it is not on the curve.
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
