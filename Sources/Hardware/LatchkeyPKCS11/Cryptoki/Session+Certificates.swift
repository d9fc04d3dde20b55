internal import CPKCS11
internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import X509

/// A certificate on a token (`CKO_CERTIFICATE`, X.509).
struct TokenCertificate: Hashable, Sendable {
    let label: String
    /// DER, at most 16 KiB.
    let der: Data

    /// The certified key, if it is on P-256.
    var publicKey: PublicKey? {
        (try? Certificate(derEncoded: Array(der))).flatMap { PublicKey(certifiedBy: $0) }
    }

    /// Whether this is an attestation, which ykcs11 shows as a certificate with the key's `CKA_ID`.
    var isAttestation: Bool { Self.isAttestation(label: label) }

    static func isAttestation(label: String) -> Bool {
        label.hasPrefix("X.509 Certificate for PIV Attestation")
    }

    /// The maximum length of a certificate, in bytes.
    static let maximumBytes = 16 * 1024
}

extension PublicKey {
    /// - Returns: nil if the certified key is not on P-256.
    init?(certifiedBy certificate: Certificate) {
        guard let key = P256.Signing.PublicKey(certificate.publicKey),
            let point = try? PublicKey(x963Representation: key.x963Representation)
        else { return nil }
        self = point
    }
}

extension Session {
    /// The X.509 certificates with a `CKA_ID`.
    func certificates(id: Data) throws(CryptokiError) -> [TokenCertificate] {
        var certificates: [TokenCertificate] = []
        for object in try objects(.certificate, id: id) {
            guard
                let der = try attribute(CKA_VALUE, of: object, most: TokenCertificate.maximumBytes),
                !der.isEmpty
            else { continue }
            certificates.append(TokenCertificate(label: try label(of: object), der: Data(der)))
        }
        return certificates
    }

    /// Stores a certificate. The user or the security officer must be logged in, as the token
    /// requires for writing.
    ///
    /// - Parameter der: The bytes of `certificate`.
    func storeCertificate(
        _ certificate: Certificate, der: Data, id: Data, label: String
    ) throws(CryptokiError) {
        try checkCancellation()
        let function = "C_CreateObject"
        var template = AttributeTemplate()
        template.set(CKA_CLASS, ObjectClass.certificate.rawValue)
        template.set(CKA_CERTIFICATE_TYPE, UInt(CKC_X_509))
        template.set(CKA_TOKEN, true)
        do {
            template.set(CKA_SUBJECT, try certificate.subject.derBytes())
            template.set(CKA_ISSUER, try certificate.issuer.derBytes())
            template.set(CKA_SERIAL_NUMBER, try certificate.serialNumber.bytes.derBytes())
        } catch {
            throw CryptokiError(
                .malformed, function: function,
                reason: "the certificate's names can't be serialized: \(error)")
        }
        template.set(CKA_VALUE, der)
        template.set(CKA_ID, id)
        template.set(CKA_LABEL, label.utf8)
        try call(function, .person) { list in
            var object: CK_OBJECT_HANDLE = 0
            return template.withAttributes { list.pointee.C_CreateObject?(handle, $0, $1, &object) }
        }
    }
}
