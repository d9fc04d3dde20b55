import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import TPM2
import Testing

struct AttestationTests {
    @Test(.softwareTPM)
    func `an attestation names the key and the challenge, and is signed by a restricted key`()
        async throws
    {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore)
        let challenge = Data("a verifier's challenge".utf8)
        let attestation = try await keystore.attest(key, challenge: challenge)

        let statement = try Attest(unmarshalling: attestation.statement)
        #expect(statement.extraData == Array(challenge))
        let publicArea = try PublicArea(unmarshalling: attestation.publicArea)
        guard case .creation(let name, _) = statement.statement else {
            Issue.record("it is about something else")
            return
        }
        #expect(try publicArea.name == name)
        #expect(publicArea.p256Point?.p256Representation == Array(key.publicKey.x963Representation))
        let signer = try PublicArea(unmarshalling: attestation.attestationKey)
        #expect(
            signer.attributes.isSuperset(of: [
                .restricted, .sign, .fixedTPM, .fixedParent, .sensitiveDataOrigin,
            ]))
        #expect(!signer.attributes.contains(.decrypt))
        let signerKey = try PublicKey(
            x963Representation: try #require(signer.p256Point?.p256Representation))
        let signature = try #require(ECDSASignature(rawRepresentation: attestation.signature))
        #expect(signerKey.isValid(signature, for: MessageDigest(sha256: attestation.statement)))
        #expect(attestation.certificates.isEmpty)

        let again = try await keystore.attest(key, challenge: challenge)
        #expect(again.attestationKey == attestation.attestationKey, "the attestation key is kept")
    }

    @Test(.softwareTPM, arguments: [0, 7, 33]) func `a challenge of another length is refused`(
        _ count: Int
    )
        async throws
    {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore, .none)
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.attest(key, challenge: Data(repeating: 1, count: count))
        }
        #expect(error?.code == .invalidInput)
    }
}
