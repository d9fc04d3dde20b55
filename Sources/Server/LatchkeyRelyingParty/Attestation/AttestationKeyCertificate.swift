internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import TPM2

/// The attributes of a TPM in a certificate (TCG EK Credential Profile section 3.2.9).
struct TPMAttributes: Hashable, Sendable, Codable {
    let manufacturer: String
    let model: String
    let version: String

    /// - Throws: The reason, unless subjectAltName contains one value of each attribute.
    init(_ certificate: HardwareCertificate) throws(HardwareCertificate.Malformed) {
        let attributes = try certificate.directoryAttributes()
        func value(_ id: ASN1ObjectIdentifier, _ name: String) throws(HardwareCertificate.Malformed)
            -> String
        {
            let values = Set(attributes.filter { $0.id == id }.map(\.value))
            guard let value = values.first, values.count == 1 else {
                throw HardwareCertificate.Malformed(
                    description: values.isEmpty
                        ? "its subjectAltName lacks the TPM's \(name) in ASCII"
                        : "its subjectAltName has several values for the TPM's \(name)")
            }
            return value
        }
        manufacturer = try value([2, 23, 133, 2, 1], "manufacturer")
        model = try value([2, 23, 133, 2, 2], "model")
        version = try value([2, 23, 133, 2, 3], "version")
    }
}

/// The verified certificate of an attestation key (WebAuthn Level 3 section 8.3.1).
struct AttestationKeyCertificate: Sendable {
    let publicKey: PublicKey
    let hardware: AttestationVerdict.Hardware
    let serialNumber: Data

    /// tcg-kp-AIKCertificate.
    static let purpose: ASN1ObjectIdentifier = [2, 23, 133, 8, 3]

    /// - Parameter certificates: The attestation key's certificate and its issuers', DER.
    /// - Throws: ``AttestationError`` with code `untrustedAttestationKey`.
    init(_ certificates: [Data], anchors: AttestationAnchors, time: Int64) throws(AttestationError)
    {
        func refused(_ detail: String) -> AttestationError {
            AttestationError(.untrustedAttestationKey, detail)
        }

        var chain: [HardwareCertificate] = []
        for der in certificates.prefix(4) {
            do {
                chain.append(try HardwareCertificate(der))
            } catch {
                throw refused("a certificate cannot be read: \(error)")
            }
        }
        guard let first = chain.first else { throw refused("there is no certificate") }
        guard first.version == 2, first.subject.elementsEqual([0x30, 0x00]),
            (try? first.basicConstraints()).map({ $0?.isAuthority == false }) == true,
            (try? first.purposes())?.contains(Self.purpose) == true,
            !Self.hasHardwareModuleName(first),
            let attributes = try? TPMAttributes(first)
        else { throw refused("the certificate is not an attestation key's") }
        guard case .p256(let key) = CertificateKey(publicKeyInfo: first.publicKeyInfo),
            let publicKey = try? PublicKey(x963Representation: key.x963Representation)
        else { throw refused("the attestation key is not on P-256") }
        let path: CertificatePath
        do {
            path = try CertificatePath(
                from: first, to: anchors.aik, simulated: anchors.simulated,
                others: Array(chain.dropFirst()), at: time)
        } catch {
            throw refused("the certificate is not trusted: \(error.detail)")
        }
        self.publicKey = publicKey
        serialNumber = Data(first.serialNumber)
        let tpm = AttestationVerdict.Hardware.tpm(
            manufacturer: attributes.manufacturer, model: attributes.model,
            version: attributes.version)
        hardware = path.isSimulated ? .simulated(tpm) : tpm
    }

    /// Whether subjectAltName contains a HardwareModuleName (RFC 4108 section 5), which WebAuthn
    /// does not allow here.
    private static func hasHardwareModuleName(_ certificate: HardwareCertificate) -> Bool {
        guard let found = certificate.find(.CertificateExtension.subjectAlternativeName) else {
            return false
        }
        do {
            let names = try HardwareCertificate.children(
                try DER.parse(found.value), .sequence, 1...16)
            for name in names where name.identifier == HardwareCertificate.tag(0) {
                let parts = try HardwareCertificate.children(
                    name, HardwareCertificate.tag(0), 2...2)
                if try ASN1ObjectIdentifier(derEncoded: parts[0]) == [1, 3, 6, 1, 5, 5, 7, 8, 4] {
                    return true
                }
            }
            return false
        } catch {
            return true
        }
    }

    /// Whether the key signed a statement.
    ///
    /// - Parameter signature: An ECDSA signature in DER (RFC 3279 section 2.2.3), or a
    ///   `TPMT_SIGNATURE` of ECDSA with SHA-256.
    func isValid(_ signature: Data, for statement: Data) -> Bool {
        let digest = MessageDigest(sha256: statement)
        if signature.first == 0x30 {
            guard let parsed = try? P256.Signing.ECDSASignature(derRepresentation: signature),
                let raw = ECDSASignature(rawRepresentation: parsed.rawRepresentation)
            else { return false }
            return publicKey.isValid(raw, for: digest)
        }
        guard case .ecdsa(.sha256, let r, let s) = try? TPMSignature(unmarshalling: signature),
            let raw = ECDSASignature(r: r, s: s)
        else { return false }
        return publicKey.isValid(raw, for: digest)
    }
}
