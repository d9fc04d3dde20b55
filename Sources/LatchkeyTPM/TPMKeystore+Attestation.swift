internal import Crypto
internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// The name of the trust anchor with the wrapped attestation key. The key identifies the machine to a verifier, so each store
    /// has its own.
    private static let attestationAnchor = "tpm/attestation-key"

    public func attest(
        _ key: HardwareKey, for request: AttestationRequest
    ) async throws(KeystoreError) -> KeyAttestation {
        do throws(KeystoreError) {
            try request.checkChallenge()
            guard request.form == .creation, request.issuer.isEmpty else {
                throw .unsupported("this form is not implemented yet", recovery: "Use the form ‘creation’.")
            }
            let challenge = request.challenge
            let blob = try keyBlob(of: key)
            guard let creation = blob.creation else {
                throw .unsupported("the key has no creation ticket", recovery: "Create a new key and attest that key.")
            }
            let root = try await root(named: blob.parentName)
            let signer = try await attestationKey(under: root)
            let explain: Explanation = { await explainResponse($0, root, hasPIN: false) }
            let result = try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
                try tpm.certify(blob, creation, under: root, by: signer, challenge: Array(challenge))
            }
            return KeyAttestation(
                format: backend, statement: Data(result.statement), signature: result.signature.rawRepresentation,
                publicArea: Data(blob.key.publicArea.marshalled),
                attestationKey: Data(signer.key.publicArea.marshalled),
                certificates: result.certificates.map { Data($0) })
        } catch { throw error.during("attest a key") }
    }

    /// The store's attestation key. Creates it at the first use.
    private func attestationKey(under root: StorageRoot) async throws(KeystoreError) -> TPMKeyBlob {
        if let anchor = try await anchors.anchor(Self.attestationAnchor) { return try Self.signer(anchor, root) }
        let created = try await createObject(KeyTemplates.attestationKey, authValue: .empty, under: root)
        var blob = TPMKeyBlob(created, hasEmptyAuth: true, under: root)
        blob.creation = nil
        let stored = try await anchors.anchor(Self.attestationAnchor, is: try serialized(blob))
        return try Self.signer(stored, root)
    }

    private static func signer(_ anchor: Data, _ root: StorageRoot) throws(KeystoreError) -> TPMKeyBlob {
        guard let blob = try? TPMKeyBlob(anchor), blob.key.publicArea.isMade(from: KeyTemplates.attestationKey) else {
            throw .damaged("the stored attestation key cannot be decoded")
        }
        guard blob.parentName == root.name else { throw otherTPM() }
        return blob
    }
}

/// The TPM's attestation of a key.
private struct Certified: Sendable {
    let statement: [UInt8]
    let signature: ECDSASignature
    let certificates: [[UInt8]]
}

extension TPM {
    /// The NV indices of the manufacturer's certificates of endorsement keys (TCG EK Credential Profile sections 2.2.1.4 and
    /// 2.2.1.5): ECC P-256, RSA-2048, ECC P-384.
    private static let certificateIndices = [0x01c0_000a, 0x01c0_0002, 0x01c0_0016].map(TPMHandle.init(rawValue:))

    fileprivate func certify(
        _ blob: TPMKeyBlob, _ creation: TPMKeyBlob.Creation, under root: StorageRoot, by signer: TPMKeyBlob,
        challenge: [UInt8]
    ) throws(TPMError) -> Certified {
        try withStorageRoot(root) { (parent) throws(TPMError) in
            try withLoadedObject(of: signer.key, under: parent) { (attestationKey) throws(TPMError) in
                try withLoadedObject(of: blob.key, under: parent) { (object) throws(TPMError) in
                    let said = try certifyCreation(
                        of: object, creationHash: creation.hash, creationTicket: creation.ticket, challenge: challenge,
                        by: attestationKey)
                    let signature = try Self.checked(said, about: object, challenge, by: attestationKey)
                    return Certified(
                        statement: said.bytes, signature: signature, certificates: try endorsementCertificates())
                }
            }
        }
    }

    /// Verifies an attestation as a verifier would, and returns its signature.
    private static func checked(
        _ said: (bytes: [UInt8], statement: Attest, signature: TPMSignature), about object: TPMObject,
        _ challenge: [UInt8], by attestationKey: TPMObject
    ) throws(TPMError) -> ECDSASignature {
        guard case .creation(object.name, _) = said.statement.statement, said.statement.extraData == challenge,
            let signature = ECDSASignature(said.signature),
            let point = attestationKey.publicArea.p256Point?.p256Representation,
            let key = try? PublicKey(x963Representation: point),
            key.isValid(signature, for: MessageDigest(sha256: said.bytes))
        else {
            throw TPMError(
                .forged, command: .certifyCreation,
                reason: "the attestation is not about this key, or its signature is wrong")
        }
        return signature
    }

    private func endorsementCertificates() throws(TPMError) -> [[UInt8]] {
        var certificates: [[UInt8]] = []
        let present = try handles(from: TPMHandle(rawValue: 0x01c0_0000), count: 32)
        for index in Self.certificateIndices where present.contains(index) {
            certificates.append(Self.withoutPadding(try nvRead(try nvReadPublic(index))))
        }
        return certificates
    }

    /// Removes the padding that some manufacturers append. The DER header has the length: `30 82` and two bytes.
    private static func withoutPadding(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.count > 4, bytes[0] == 0x30, bytes[1] == 0x82 else { return bytes }
        return Array(bytes.prefix(4 + Int(bytes[2]) << 8 + Int(bytes[3])))
    }
}
