/// The key types with their numbers in commands (SP 800-78-4 table 6-2).
package enum KeyAlgorithm: UInt8, Sendable {
    case rsa2048 = 0x07
    case p256 = 0x11
    case p384 = 0x14

    /// The length of a coordinate or of the modulus in bytes.
    var width: Int {
        switch self {
        case .rsa2048: 256
        case .p256: 32
        case .p384: 48
        }
    }
}

/// A private key of the card.
enum CardKey: Sendable {
    case ellipticCurve(EllipticCurveKey)
    case rsa(RSAKey)

    /// Generates a key. RSA keys use OpenSSL's random numbers.
    static func generate(_ algorithm: KeyAlgorithm, random: (Int) -> [UInt8]) throws(StatusWord)
        -> CardKey
    {
        algorithm == .rsa2048
            ? .rsa(try RSAKey.generate())
            : .ellipticCurve(try EllipticCurveKey.generate(algorithm, random: random))
    }

    var algorithm: KeyAlgorithm {
        switch self {
        case .ellipticCurve(let key): key.algorithm
        case .rsa: .rsa2048
        }
    }

    /// 04 and both coordinates; nil for RSA.
    var publicPoint: [UInt8]? {
        guard case .ellipticCurve(let key) = self else { return nil }
        return key.publicPoint
    }

    /// The public key as in the responses to GENERATE and GET METADATA (SP 800-73-4 Part 2 table
    /// 11).
    var publicKeyFields: [UInt8] {
        switch self {
        case .ellipticCurve(let key): TLV(0x86, key.publicPoint).bytes
        case .rsa(let key): [TLV(0x81, key.modulus), TLV(0x82, key.exponent)].bytes
        }
    }

    /// Signs a digest with ECDSA, or a padded block with RSA.
    ///
    /// - Returns: The signature; an ECDSA signature is in DER.
    func sign(_ input: [UInt8]) throws(StatusWord) -> [UInt8] {
        switch self {
        case .ellipticCurve(let key): try key.sign(input).der
        case .rsa(let key): try key.apply(to: input)
        }
    }

    /// Computes the shared secret of ECDH: the first coordinate.
    func agree(with point: [UInt8]) throws(StatusWord) -> [UInt8] {
        guard case .ellipticCurve(let key) = self else { throw .incorrectData }
        return try key.agree(with: point)
    }
}
