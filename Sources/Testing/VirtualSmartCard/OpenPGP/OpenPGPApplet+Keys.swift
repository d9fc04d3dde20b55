internal import Crypto
internal import FoundationEssentials

/// The keys with their control reference templates (section 7.2.14), in the order of their numbers.
enum OpenPGPKey: UInt8, CaseIterable {
    case signature = 0xB6
    case decryption = 0xB8
    case authentication = 0xA4

    /// The number of the key, from 0.
    private var index: UInt16 {
        switch self {
        case .signature: 0
        case .decryption: 1
        case .authentication: 2
        }
    }

    /// The tag of the algorithm attributes.
    var attributesObject: UInt16 { 0xC1 + index }
    /// The tag of the fingerprint.
    var fingerprintObject: UInt16 { 0xC7 + index }

    /// The algorithm attributes: ECDSA or ECDH, and the object identifier of P-256 (section 4.4.3).
    var attributes: [UInt8] { [algorithm] + Self.curve }

    /// The fingerprint of a key whose creation time is 0 (RFC 4880 section 12.2, RFC 6637 section
    /// 9).
    func fingerprint(of key: EllipticCurveKey) -> [UInt8] {
        let header: [UInt8] = [4, 0, 0, 0, 0, algorithm, UInt8(Self.curve.count)]
        // The point's length is 515 bits.
        let material = header + Self.curve + [0x02, 0x03] + key.publicPoint
        return Array(Insecure.SHA1.hash(data: [0x99, 0x00, UInt8(material.count)] + material))
    }

    /// The public-key algorithm (RFC 6637 section 5).
    private var algorithm: UInt8 { self == .decryption ? 0x12 : 0x13 }
    /// 1.2.840.10045.3.1.7.
    private static let curve: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
}

extension OpenPGPApplet {
    /// GENERATE ASYMMETRIC KEY PAIR (section 7.2.14): P1 80 generates a key, 81 reads the public
    /// key.
    mutating func publicKey(p1: UInt8, _ data: [UInt8]) throws(StatusWord) -> [UInt8] {
        guard let first = data.first, let reference = OpenPGPKey(rawValue: first) else {
            throw .incorrectData
        }
        switch p1 {
        case 0x80:
            try require(.administrator)
            keys[reference] = try EllipticCurveKey.generate(.p256, random: environment.randomBytes)
            if reference == .signature { signatureCount = 0 }
        case 0x81: break
        default: throw .incorrectParameters
        }
        return TLV(0x7F49, TLV(0x86, try key(reference).publicPoint).bytes).bytes
    }

    /// PSO: COMPUTE DIGITAL SIGNATURE (section 7.2.10). The data is the digest.
    mutating func sign(_ digest: [UInt8]) throws(StatusWord) -> [UInt8] {
        try require(.signature)
        if !allowsSeveralSignatures { session.verified.remove(.signature) }
        let signature = try rawSignature(of: digest, with: .signature)
        signatureCount += 1
        return signature
    }

    /// INTERNAL AUTHENTICATE (section 7.2.13). The data is the digest.
    func authenticate(_ digest: [UInt8]) throws(StatusWord) -> [UInt8] {
        try require(.user)
        return try rawSignature(of: digest, with: .authentication)
    }

    /// PSO: DECIPHER (section 7.2.11). The data is the other side's public key; the result is the
    /// shared secret.
    func decipher(_ data: [UInt8]) throws(StatusWord) -> [UInt8] {
        try require(.user)
        let key = try key(.decryption)
        let cipher = try TLV.parse(data)[tag: 0xA6] ?? []
        let publicKey = try TLV.parse(cipher)[tag: 0x7F49] ?? []
        guard let point = try TLV.parse(publicKey)[tag: 0x86] else { throw .incorrectData }
        return try key.agree(with: point)
    }

    private func rawSignature(of digest: [UInt8], with reference: OpenPGPKey) throws(StatusWord)
        -> [UInt8]
    {
        let key = try key(reference)
        guard (1...key.algorithm.width).contains(digest.count) else { throw .wrongLength }
        return try key.sign(digest).raw
    }

    private func key(_ reference: OpenPGPKey) throws(StatusWord) -> EllipticCurveKey {
        guard let key = keys[reference] else { throw .referenceNotFound }
        return key
    }
}
