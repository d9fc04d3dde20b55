internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import X509

/// What a YubiKey says of a key that it generated: a certificate, issued by the card's own attestation key (slot f9).
struct PIVAttestation: Hashable, Sendable {
    /// When the card wants the PIN.
    enum PINPolicy: UInt8 {
        case never = 1
        case once = 2
        case always = 3
    }

    /// When the card wants a touch.
    enum TouchPolicy: UInt8 {
        case never = 1
        case always = 2
        /// Once in 15 seconds.
        case cached = 3
    }

    /// The attesting certificate and its issuer's, DER.
    let certificates: [Data]
    /// nil for a value that is not known here.
    let pin: PINPolicy?
    let touch: TouchPolicy?

    /// The two policies, one byte each: 1.3.6.1.4.1.41482.3.8 (Yubico, PIV attestation).
    private static let policies: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 41482, 3, 8]

    /// - Throws: When the certificates can't be read, are not for this key, or are not signed by the issuer.
    init(of key: PublicKey, certificate: Data, issuer: Data) throws {
        let attesting = try Certificate(derEncoded: Array(certificate))
        let issuing = try Certificate(derEncoded: Array(issuer))
        guard
            let subject = P256.Signing.PublicKey(attesting.publicKey),
            subject.x963Representation == key.x963Representation,
            issuing.publicKey.isValidSignature(attesting.signature, for: attesting)
        else { throw ASN1Error.invalidASN1Object(reason: "the attestation is not for this key, or not by this card") }
        certificates = [certificate, issuer]
        let bytes = attesting.extensions[oid: Self.policies].map { Array($0.value) } ?? []
        pin = bytes.count == 2 ? PINPolicy(rawValue: bytes[0]) : nil
        touch = bytes.count == 2 ? TouchPolicy(rawValue: bytes[1]) : nil
    }

    /// SubjectPublicKeyInfo of the issuer, DER.
    static func issuerKey(of certificate: Data) throws -> Data {
        var serializer = DER.Serializer()
        try serializer.serialize(Certificate(derEncoded: Array(certificate)).publicKey)
        return Data(serializer.serializedBytes)
    }
}

extension Session {
    /// ykcs11 shows an attestation as a certificate with the key's `CKA_ID` and this label (section 3.3 of the reference).
    private static let label = "X.509 Certificate for PIV Attestation"
    /// The `CKA_ID` of the attestation key's certificate, slot f9.
    private static let issuerID = Data([25])

    /// The attestation of a key, where the token gives one: only for keys that it generated.
    ///
    /// - Throws: `unsound` for one that is not what it should be.
    func attestation(of key: TokenKey) throws(CryptokiError) -> PIVAttestation? {
        guard profile.family == .ykcs11 else { return nil }
        let own = try certificates(id: key.id).first { $0.label.hasPrefix(Self.label) }
        guard let own, let issuer = try certificates(id: Self.issuerID).first else { return nil }
        do {
            return try PIVAttestation(of: key.publicKey, certificate: own.der, issuer: issuer.der)
        } catch {
            throw CryptokiError(.unsound, reason: "the attestation of the key is unsound: \(error)")
        }
    }
}
