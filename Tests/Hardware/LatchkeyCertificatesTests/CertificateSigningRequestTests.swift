import FoundationEssentials
import Latchkey
import LatchkeyCertificates
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import SwiftASN1
import Testing
import X509

/// Requests and certificates signed by a TPM key, verified by swift-certificates and openssl.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct CertificateSigningRequestTests {
    private let prompt = PromptContext(reason: "sign a certificate request")

    private func key(_ policy: AccessPolicy = .pin) async throws -> (TPMKeystore, HardwareKey) {
        let keystore = try TPMKeystore(
            tcti: SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let key = try await keystore.createKey(
            KeyRequest(policy: policy, prompt: prompt), authorizedBy: ScriptedPresence(pins: "2580")
        )
        return (keystore, key)
    }

    @Test(.requires(program: "openssl")) func `openssl verifies a request and reads its subject`()
        async throws
    {
        let (keystore, key) = try await key()
        let request = try await keystore.certificateSigningRequest(
            subject: DistinguishedName(rfc4514: "CN=Ann Önymous,O=Example,C=SE"), with: key,
            for: prompt,
            authorizedBy: ScriptedPresence(pins: "2580"))
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "request.pem")
        try Data(request.serializeAsPEM().pemString.utf8).write(to: URL(filePath: path))
        let text = try await openSSL(
            "req", "-in", path, "-verify", "-noout", "-subject", "-pubkey", "-nameopt",
            "RFC2253,-esc_msb,utf8")
        #expect(text.contains("verify OK"))
        #expect(text.contains("subject=CN=Ann Önymous,O=Example,C=SE"))
        #expect(text.contains(key.publicKey.pemRepresentation))
    }

    @Test func `a wrong PIN is the keystore's own error`() async throws {
        let (keystore, key) = try await key()
        let subject = try DistinguishedName(rfc4514: "CN=x")
        await #expect(
            throws: KeystoreError(operation: "", code: .wrongProof, reason: "", recovery: "")
        ) {
            _ = try await keystore.certificateSigningRequest(
                subject: subject, with: key, for: prompt,
                authorizedBy: ScriptedPresence(pins: "0000"))
        }
    }

    @Test(.requires(program: "openssl")) func `a self-signed certificate verifies`() async throws {
        let (keystore, key) = try await key(.none)
        let signer = HardwarePrivateKey(
            key, in: keystore, for: prompt, authorizedBy: NobodyPresent())
        let name = try DistinguishedName(rfc4514: "CN=self")
        let certificate = try await Certificate(
            version: .v3, serialNumber: .init(), publicKey: signer.publicKey,
            notValidBefore: Date() - 60,
            notValidAfter: Date() + 3600, issuer: name, subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {},
            issuerAsyncPrivateKey: Certificate.PrivateKey(signer))
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "certificate.pem")
        try Data(certificate.serializeAsPEM().pemString.utf8).write(to: URL(filePath: path))
        #expect(try await openSSL("verify", "-check_ss_sig", "-CAfile", path, path).contains("OK"))
    }

    @Test func `synchronous signing and serialization are refused`() async throws {
        let (keystore, key) = try await key(.none)
        let signer = HardwarePrivateKey(
            key, in: keystore, for: prompt, authorizedBy: NobodyPresent())
        let unsupported = KeystoreError.unsupported("", recovery: "")
        #expect(throws: unsupported) {
            _ = try signer.signSynchronously(bytes: [1], signatureAlgorithm: .ecdsaWithSHA256)
        }
        #expect(throws: unsupported) { _ = try signer.serializeAsPEM() }
        await #expect(throws: unsupported) {
            _ = try await signer.signAsynchronously(
                bytes: [1], signatureAlgorithm: .ecdsaWithSHA384)
        }
    }

    private func openSSL(_ arguments: String...) async throws -> String {
        try await SystemProgram("openssl").require(arguments)
    }
}
