import FoundationEssentials
import Latchkey
import LatchkeyCertificates
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTesting
import SwiftASN1
import Testing
import X509

/// Certificates on a SoftHSM2 token.
@Suite(.softwareToken, .requires(program: "softhsm2-util"), .timeLimit(.minutes(15)))
struct CertificateTests {
    private let prompt = PromptContext(reason: "store a certificate")

    private func key() async throws -> (PKCS11Keystore, HardwareKey) {
        let keystore = try PKCS11Keystore(uri: SoftwareToken.current.uri)
        let key = try await keystore.createKey(
            KeyRequest(policy: .pin, label: "mine", prompt: prompt),
            authorizedBy: ScriptedPresence(pins: "correct"))
        return (keystore, key)
    }

    private func certificate(for key: HardwareKey, in keystore: PKCS11Keystore) async throws -> Data
    {
        let signer = HardwarePrivateKey(
            key, in: keystore, for: prompt, authorizedBy: ScriptedPresence(pins: "correct"))
        let name = try DistinguishedName(rfc4514: "CN=Ann Onymous")
        let certificate = try await Certificate(
            version: .v3, serialNumber: .init(), publicKey: signer.publicKey,
            notValidBefore: Date() - 60,
            notValidAfter: Date() + 3600, issuer: name, subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {},
            issuerAsyncPrivateKey: Certificate.PrivateKey(signer))
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return Data(serializer.serializedBytes)
    }

    @Test func `a certificate is stored for its key`() async throws {
        let (keystore, key) = try await key()
        let (_, other) = try await self.key()
        let der = try await certificate(for: key, in: keystore)
        #expect(try await keystore.certificates(of: key).isEmpty)
        try await keystore.storeCertificate(
            der, for: key, prompt: prompt, authorizedBy: ScriptedPresence(pins: "correct"))
        #expect(try await keystore.certificates(of: key) == [der])
        #expect(try await keystore.certificates(of: other).isEmpty)
        // The key signs as before.
        _ = try await certificate(for: key, in: keystore)
    }

    @Test func `a certificate for another key and an invalid one are refused before any prompt`()
        async throws
    {
        let (keystore, key) = try await key()
        let (_, other) = try await self.key()
        for der in [
            try await certificate(for: other, in: keystore), Data("no certificate".utf8), Data(),
        ] {
            await #expect(throws: KeystoreError.invalidInput("")) {
                try await keystore.storeCertificate(
                    der, for: key, prompt: prompt, authorizedBy: NobodyPresent())
            }
        }
    }

    @Test func `a wrong PIN stores nothing`() async throws {
        let (keystore, key) = try await key()
        let der = try await certificate(for: key, in: keystore)
        await #expect(
            throws: KeystoreError(operation: "", code: .wrongProof, reason: "", recovery: "")
        ) {
            try await keystore.storeCertificate(
                der, for: key, prompt: prompt, authorizedBy: ScriptedPresence(pins: "incorrect"))
        }
        #expect(try await keystore.certificates(of: key).isEmpty)
    }
}
