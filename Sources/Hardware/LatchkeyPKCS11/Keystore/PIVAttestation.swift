internal import FoundationEssentials
public import Latchkey
internal import SwiftASN1
internal import X509

/// A YubiKey's attestation of a key that it generated: a certificate, issued by the card's
/// attestation key (slot f9).
struct PIVAttestation: Hashable, Sendable {
    /// When the card requires the PIN.
    enum PINPolicy: UInt8 {
        case never = 1
        case once = 2
        case always = 3
    }

    /// When the card requires a touch.
    enum TouchPolicy: UInt8 {
        case never = 1
        case always = 2
        /// Once in 15 seconds.
        case cached = 3
    }

    /// The attesting certificate and its issuer's, DER.
    let certificates: [Data]
    /// nil for an unknown value.
    let pin: PINPolicy?
    let touch: TouchPolicy?

    /// The two policies, one byte each: 1.3.6.1.4.1.41482.3.8 (Yubico, PIV attestation).
    private static let policies: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 41482, 3, 8]

    /// - Throws: If the certificates can't be read, are not for this key, or are not signed by the
    ///   issuer.
    init(of key: PublicKey, certificate: Data, issuer: Data) throws {
        let attesting = try Certificate(derEncoded: Array(certificate))
        let issuing = try Certificate(derEncoded: Array(issuer))
        guard PublicKey(certifiedBy: attesting) == key,
            issuing.publicKey.isValidSignature(attesting.signature, for: attesting)
        else {
            throw ASN1Error.invalidASN1Object(
                reason: "the attestation is not for this key, or not from this card")
        }
        certificates = [certificate, issuer]
        let bytes = attesting.extensions[oid: Self.policies].map { Array($0.value) } ?? []
        pin = bytes.count == 2 ? PINPolicy(rawValue: bytes[0]) : nil
        touch = bytes.count == 2 ? TouchPolicy(rawValue: bytes[1]) : nil
    }

    /// SubjectPublicKeyInfo of the issuer, DER.
    static func issuerKey(of certificate: Data) throws -> Data {
        Data(try Certificate(derEncoded: Array(certificate)).publicKey.derBytes())
    }
}

extension Session {
    /// The `CKA_ID` of the attestation key's certificate, slot f9.
    private static let issuerID = Data([25])

    /// Whether the card has an attestation key, and so attests the keys that it generates.
    func hasAttestationKey() throws(CryptokiError) -> Bool {
        guard profile.family == .ykcs11 else { return false }
        return try !certificates(id: Self.issuerID).isEmpty
    }

    /// The attestation of a key; nil if the token has none. Tokens attest only keys that they
    /// generated.
    ///
    /// - Throws: `unsound` for an attestation that can't be read or does not verify.
    func attestation(of publicKey: PublicKey, id: Data) throws(CryptokiError) -> PIVAttestation? {
        guard profile.family == .ykcs11 else { return nil }
        let own = try certificates(id: id).first(where: \.isAttestation)
        guard let own, let issuer = try certificates(id: Self.issuerID).first else { return nil }
        do {
            return try PIVAttestation(of: publicKey, certificate: own.der, issuer: issuer.der)
        } catch {
            throw CryptokiError(
                .unsound, reason: "the attestation of the key is not valid: \(error)")
        }
    }
}

extension PKCS11Keystore {
    public func isAttestable(_ key: HardwareKey) -> Bool {
        (try? TokenKeyBlob.of(key))?.attestation.count == 2
    }

    /// Returns a YubiKey's attestation of a key that it generated, in the format
    /// `KeyAttestation.piv`. The certificate was read when the key was created or adopted, and is
    /// stored with it; the card is not used.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a key without an attestation.
    public func attest(
        _ key: HardwareKey, for request: AttestationRequest
    ) async throws(KeystoreError) -> KeyAttestation {
        do throws(KeystoreError) {
            try request.checkChallenge()
            let blob = try TokenKeyBlob.of(key)
            guard blob.attestation.count == 2 else {
                throw .unsupported(
                    "the token returned no attestation for this key",
                    recovery: "YubiKeys attest keys that they generated, through Yubico's module.")
            }
            do {
                return KeyAttestation(
                    format: KeyAttestation.piv, statement: blob.attestation[0], signature: Data(),
                    publicArea: key.publicKey.x963Representation,
                    attestationKey: try PIVAttestation.issuerKey(of: blob.attestation[1]),
                    certificates: [blob.attestation[1]])
            } catch {
                throw KeystoreError.damaged("the stored attestation can't be read: \(error)")
            }
        } catch {
            throw error.during("attest a key")
        }
    }
}
