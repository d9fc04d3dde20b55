import Crypto
import Foundation
import Latchkey
import LatchkeyTestSupport
import Testing

@testable import LatchkeyRelyingParty

/// An independent library reads and verifies the server's certificates.
@Suite("Certificates of attestation keys, checked by Python's cryptography")
struct AttestationCertificateOracleTests {
    private static let script = """
        import base64, sys
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        leaf, authority = (x509.load_der_x509_certificate(base64.b64decode(text)) for text in sys.argv[1:3])
        for certificate in (leaf, authority):
            assert certificate.issuer == authority.subject
            authority.public_key().verify(
                certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(certificate.signature_hash_algorithm))
        def value(certificate, kind, critical):
            found = certificate.extensions.get_extension_for_class(kind)
            assert found.critical == critical, kind
            return found.value
        constraints = value(authority, x509.BasicConstraints, True)
        assert constraints.ca and constraints.path_length == 0
        assert value(authority, x509.KeyUsage, True).key_cert_sign
        # WebAuthn Level 3 section 8.3.1.
        assert leaf.version == x509.Version.v3 and not list(leaf.subject)
        assert not value(leaf, x509.BasicConstraints, True).ca
        assert [usage.dotted_string for usage in value(leaf, x509.ExtendedKeyUsage, False)] == ['2.23.133.8.3']
        names = value(leaf, x509.SubjectAlternativeName, True).get_values_for_type(x509.DirectoryName)
        point = leaf.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        assert point == base64.b64decode(sys.argv[3])
        dates = [getattr(leaf, name + '_utc', None) or getattr(leaf, name) for name in ('not_valid_before', 'not_valid_after')]
        print((dates[1] - dates[0]).days, *[name.value for name in names[0]], end='')
        """

    @Sendable private static func isAvailable() async -> Bool {
        await (try? python("import cryptography", [])) != nil
    }

    @Test(.enabled("needs python3 with the module cryptography", isAvailable))
    func
        `an issued certificate has the form that WebAuthn requires, and its authority's signature`()
        async throws
    {
        let rig = AttestationRig()
        func issuer() throws -> AttestationIssuer {
            let made = try AttestationIssuer.generate(
                name: "Example AIK CA", at: AttestationRig.time)
            return try AttestationIssuer(certificate: made.certificate, privateKey: made.privateKey)
        }
        let authority = try issuer()
        // The certificate of a TPM's key has the TPM's attributes. The purpose of the key is not
        // used here.
        let attributes = try TPMAttributes(
            HardwareCertificate(rig.attestationKeyCertificate()))
        let key = try PublicKey(x963Representation: rig.attestationKey.publicKey.x963Representation)
        let issued = try authority.issuer.issue(
            for: key, in: attributes, at: AttestationRig.time, days: 90)
        let arguments = { (certificate: Data) in
            [issued, certificate, key.x963Representation].map { $0.base64EncodedString() }
        }
        let answer = try await Self.python(Self.script, arguments(authority.certificate))
        #expect(answer == "90 id:49424D00 swtpm id:20191023")
        let other = try issuer()
        await #expect(throws: Failed.self) {
            try await Self.python(Self.script, arguments(other.certificate))
        }
    }

    private struct Failed: Error {}

    private static func python(_ script: String, _ arguments: [String]) async throws -> String {
        let outcome = try await SystemProgram("python3").result(of: ["-c", script] + arguments)
        guard outcome.isSuccess else { throw Failed() }
        return outcome.output
    }
}
