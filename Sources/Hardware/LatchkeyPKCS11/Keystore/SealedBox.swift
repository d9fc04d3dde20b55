internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1

/// The blob of a stored secret: 32 bytes, encrypted with a key on a token.
///
/// The computer and the token share a secret that only the token can compute, for sealing as for
/// opening. In version 1 it is the x coordinate of the private key times a point with an unknown
/// discrete logarithm (``Header/point()``), in version 2 the deterministic RSA signature of
/// ``Header/statement()``. An attacker who can write the store but can't use the token can't create
/// a box.
///
/// HKDF-SHA256 derives an AES-256 key and a nonce from the shared secret, both used once. AES-GCM
/// encrypts, with the header as additional data.
///
///     LatchkeySealedSecret ::= SEQUENCE {
///         header  SEQUENCE {
///             version        INTEGER (1..2),
///             uri            UTF8String,                  -- token and CKA_ID of the sealing key, see TokenName
///             publicKeyHash  OCTET STRING (SIZE (32)),    -- of the sealing key's point or modulus
///             terms          KeyTerms,
///             salt           OCTET STRING (SIZE (32)) },  -- random
///         sealed  OCTET STRING (SIZE (48)) }              -- ciphertext and tag
struct SealedBox: Hashable, Sendable {
    static let secretBytes = 32
    static let saltBytes = 32
    private static let tagBytes = 16

    let header: Header
    let sealed: Data

    struct Header: Hashable, Sendable {
        let name: TokenName
        let publicKeyHash: Data
        let terms: KeyTerms
        let establishment: KeyEstablishment
        /// Random, so that each box has another shared secret. 32 bytes.
        let salt: Data
    }

    static func newSalt() -> Data {
        SecretBytes.random(count: saltBytes).withUnsafeBytes { Data($0) }
    }

    init(sealing secret: SecretBytes, header: Header, sharedSecret: SecretBytes) throws {
        let material = try Material(header, sharedSecret: sharedSecret)
        let box = try secret.withUnsafeBytes { bytes in
            try AES.GCM.seal(
                bytes, using: material.key, nonce: material.nonce, authenticating: material.header)
        }
        self.header = header
        sealed = box.ciphertext + box.tag
    }

    func open(sharedSecret: SecretBytes) throws -> SecretBytes {
        let material = try Material(header, sharedSecret: sharedSecret)
        let box = try AES.GCM.SealedBox(
            nonce: material.nonce, ciphertext: sealed.prefix(Self.secretBytes),
            tag: sealed.suffix(Self.tagBytes))
        var plain = try AES.GCM.open(box, using: material.key, authenticating: material.header)
        defer { plain.resetBytes(in: plain.startIndex..<plain.endIndex) }
        return SecretBytes(plain)
    }

    /// Key, nonce and additional data of one box.
    private struct Material {
        let key: SymmetricKey
        let nonce: AES.GCM.Nonce
        let header: [UInt8]

        init(_ header: Header, sharedSecret: SecretBytes) throws {
            self.header = try header.derBytes()
            let salt = header.salt + header.publicKeyHash
            let name = "Latchkey PKCS#11 seal \(header.establishment.rawValue)"
            let input = sharedSecret.withUnsafeBytes { SymmetricKey(data: $0) }
            key = HKDF<SHA256>.deriveKey(
                inputKeyMaterial: input, salt: salt, info: Data("\(name): key".utf8),
                outputByteCount: 32)
            let bytes = HKDF<SHA256>.deriveKey(
                inputKeyMaterial: input, salt: salt, info: Data("\(name): nonce".utf8),
                outputByteCount: 12)
            nonce = try bytes.withUnsafeBytes { try AES.GCM.Nonce(data: Data($0)) }
        }
    }
}

extension SealedBox: DERSequence {
    init(elements: inout ASN1NodeCollection.Iterator) throws {
        header = try Header(derEncoded: &elements)
        sealed = try elements.octets(count: Self.secretBytes + Self.tagBytes)
    }

    func serializeElements(into coder: inout DER.Serializer) throws {
        try coder.serialize(header)
        try coder.serialize(ASN1OctetString(sealed))
    }
}

extension SealedBox.Header: DERSequence {
    init(elements: inout ASN1NodeCollection.Iterator) throws {
        guard let establishment = KeyEstablishment(rawValue: try Int(derEncoded: &elements)) else {
            throw ASN1Error.invalidASN1Object(reason: "another version")
        }
        self.establishment = establishment
        name = try TokenName(derEncoded: &elements)
        publicKeyHash = try elements.octets(count: SHA256.byteCount)
        terms = try KeyTerms(derEncoded: &elements)
        salt = try elements.octets(count: SealedBox.saltBytes)
    }

    func serializeElements(into coder: inout DER.Serializer) throws {
        try coder.serialize(establishment.rawValue)
        try coder.serialize(name)
        try coder.serialize(ASN1OctetString(publicKeyHash))
        try coder.serialize(terms)
        try coder.serialize(ASN1OctetString(salt))
    }
}

extension SealedBox.Header {
    private static let pointLabel = Data("Latchkey PKCS#11 seal 1: point".utf8)
    private static let statementLabel = Data("Latchkey PKCS#11 seal 2: statement".utf8)
    /// About half of all x coordinates are on the curve, so that 256 failures in a row do not
    /// happen.
    private static let attempts = UInt8.min ... .max

    /// A point on P-256 with an unknown discrete logarithm: the first x = SHA-256(label, counter,
    /// header) that is on the curve, with the even y. The header contains the salt, so that each
    /// box has a different point. The point and the time that this takes are not secret.
    ///
    /// - Throws: `malformed` if the header can't be serialized, or no point is found.
    func point() throws(CryptokiError) -> PublicKey {
        let header = try serialized(for: "C_DeriveKey")
        for counter in Self.attempts {
            let x = SHA256.hash(data: Self.pointLabel + [counter] + header)
            guard
                let point = try? P256.KeyAgreement.PublicKey(compressedRepresentation: [0x02] + x),
                let key = try? PublicKey(x963Representation: point.x963Representation)
            else { continue }
            return key
        }
        throw .malformed("C_DeriveKey", "no point is found for a sealed secret")
    }

    /// The message that the token's RSA key signs: a label and the header, which contains the salt,
    /// so that each box has a different one. It is not secret; the signature is.
    ///
    /// - Throws: `malformed` if the header can't be serialized.
    func statement() throws(CryptokiError) -> Data {
        Self.statementLabel + (try serialized(for: "C_Sign"))
    }

    private func serialized(for function: String) throws(CryptokiError) -> [UInt8] {
        do {
            return try derBytes()
        } catch {
            throw .malformed(
                function, "the header of a sealed secret can't be serialized: \(error)")
        }
    }
}
