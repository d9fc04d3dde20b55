internal import CPKCS11
internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import X509

/// A certificate on a token (`CKO_CERTIFICATE`, X.509).
struct TokenCertificate: Hashable, Sendable {
    /// `CKA_ID`, the same as the key's.
    let id: Data
    let label: String
    /// DER, at most 16 KiB.
    let der: Data
    var handle = ObjectHandle(rawValue: 0)

    /// The certified key, if it is on P-256.
    var publicKey: PublicKey? {
        guard let certificate = try? Certificate(derEncoded: Array(der)),
            let key = P256.Signing.PublicKey(certificate.publicKey)
        else { return nil }
        return try? PublicKey(x963Representation: key.x963Representation)
    }

    /// Whether this is an attestation, which ykcs11 shows as a certificate with the key's `CKA_ID`.
    var isAttestation: Bool { Self.isAttestation(label: label) }

    static func isAttestation(label: String) -> Bool { label.hasPrefix("X.509 Certificate for PIV Attestation") }

    /// The maximum length of a certificate, in bytes.
    static let maximumBytes = 16 * 1024
}

extension Session {
    /// The X.509 certificates on the token, or those with a `CKA_ID`.
    func certificates(id: Data? = nil) throws(CryptokiError) -> [TokenCertificate] {
        var certificates: [TokenCertificate] = []
        for object in try objects(.certificate, id: id) {
            guard let der = try attribute(CKA_VALUE, of: object, most: TokenCertificate.maximumBytes), !der.isEmpty
            else { continue }
            certificates.append(
                TokenCertificate(
                    id: try identifier(of: object), label: try label(of: object), der: Data(der), handle: object))
        }
        return certificates
    }

    /// Stores a certificate. The user or the security officer must be logged in, as the token requires for writing.
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
            template.set(CKA_SUBJECT, try Self.serialized(certificate.subject))
            template.set(CKA_ISSUER, try Self.serialized(certificate.issuer))
            template.set(CKA_SERIAL_NUMBER, try Self.serialized(certificate.serialNumber.bytes))
        } catch {
            throw CryptokiError(
                .malformed, function: function, reason: "the certificate's names can't be serialized: \(error)")
        }
        template.set(CKA_VALUE, der)
        template.set(CKA_ID, id)
        template.set(CKA_LABEL, label.utf8)
        try call(function, .person) { list in
            var object: CK_OBJECT_HANDLE = 0
            return template.withAttributes { list.pointee.C_CreateObject?(handle, $0, $1, &object) }
        }
    }

    private static func serialized(_ value: some DERSerializable) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(value)
        return serializer.serializedBytes
    }
}
