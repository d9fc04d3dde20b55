package import FoundationEssentials
package import Latchkey
internal import TPM2

extension ApprovalAuthority {
    /// Lets an attestation key state that the approval key is in this TPM: Load, StartAuthSession,
    /// Certify, FlushContext.
    ///
    /// The approval key is the object, which its authValue authorizes; the signer is the client's,
    /// a restricted key. The caller verifies that the administrator asks.
    ///
    /// - Parameter challenge: 8 to 64 bytes.
    package func certifyKey(
        by key: WrappedAttestationKey, challenge: Data
    ) async throws(KeystoreError) -> CertifiedApprovalKey {
        do throws(KeystoreError) {
            guard (8...64).contains(challenge.count),
                let privatePart = PrivateBlob(bytes: Array(key.privatePart)),
                let publicArea = try? PublicArea(unmarshalling: key.publicArea),
                publicArea.isMade(from: KeyTemplates.attestationKey)
            else { throw .invalidInput("the attestation key or the challenge cannot be used") }
            return try await work { (tpm, store) in
                try tpm.withAuthority(store) { (authority) throws(TPMError) in
                    try tpm.withLoaded(privatePart, publicArea, under: authority.parent) {
                        (signer) throws(TPMError) in
                        let said = try tpm.withSession(.hmac, saltedTo: authority.parent) {
                            (session) throws(TPMError) in
                            try tpm.execute(
                                Certify(authority.key, by: signer, challenge: Array(challenge)),
                                authorizedBy: .lastUse(of: session, authValue: authority.authValue))
                        }
                        guard let signature = ECDSASignature(said.signature) else {
                            throw TPMError(
                                .forged, reason: "the statement is not signed with ECDSA")
                        }
                        return CertifiedApprovalKey(
                            publicArea: Data(authority.key.publicArea.marshalled),
                            statement: Data(said.bytes),
                            signature: signature)
                    }
                }
            }
        } catch { throw error.during("certify the approval key") }
    }
}

extension TPMKeystore {
    /// The attestation key for an issuer, for the presence broker.
    package func wrappedAttestationKey(for issuer: String) async throws(KeystoreError)
        -> WrappedAttestationKey
    {
        let root = try await presentRoot()
        let key = try await attestationKey(for: issuer, under: root).key
        return WrappedAttestationKey(
            publicArea: Data(key.publicArea.marshalled), privatePart: Data(key.privatePart.bytes))
    }

    /// The JSON of a statement about the broker's approval key for a server. nil without a
    /// certificate of the attestation key.
    package func json(of certified: CertifiedApprovalKey, for issuer: String)
        async throws(KeystoreError) -> Data?
    {
        let identity = try await attestationIdentity(for: issuer)
        guard !identity.certificates.isEmpty,
            let signature = try? certified.signature.derRepresentation
        else {
            return nil
        }
        let object = AttestationObject.encode(
            certificates: identity.certificates, signature: signature,
            statement: certified.statement,
            publicArea: certified.publicArea, authenticatorData: nil)
        return KeyAttestation(
            format: KeyAttestation.tpm, statement: certified.statement,
            signature: certified.signature.rawRepresentation, publicArea: certified.publicArea,
            attestationKey: identity.attestationKey, certificates: identity.certificates,
            object: object
        ).json
    }

    /// The certificates of the endorsement keys and their issuers in the TPM, DER. Creates no
    /// attestation key.
    package func endorsementCertificates() async throws(KeystoreError) -> [Data] {
        try await withTPM { (tpm) throws(TPMError) in try tpm.endorsementKeys() }?.certificates
            ?? []
    }
}
