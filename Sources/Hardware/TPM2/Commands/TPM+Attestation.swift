/// Attestation commands, TPM 2.0 Part 3 sections 12.5, 18 and 31.16.
///
/// In all of them, the signer is a restricted signing key without an authValue, whose public area
/// has a scheme. The challenge is the verifier's: at most 64 bytes, and at most the digest of the
/// TPM's largest hash algorithm.
extension TPM {
    /// `TPM2_Certify` (section 18.2): attests that `object` is in this TPM.
    ///
    /// - Parameter authorization: An authorization in the ADMIN role of `object`, for example a
    ///   policy session with `PolicyCommandCode(Certify)`.
    package func certify(
        _ object: TPMObject, by signer: TPMObject, challenge: [UInt8],
        authorizedBy authorization: Authorization
    ) throws(TPMError) -> SignedAttest {
        try result(
            of: .certify, on: [object, signer], authorizedBy: [authorization, .emptyPassword],
            parameters: TPMWriter(TPM2B(challenge), Scheme.null))
    }

    /// `TPM2_CertifyCreation` (section 18.3): attests that this TPM created `object`. Requires no
    /// authorization of the object.
    package func certifyCreation(
        of object: TPMObject, creationHash: [UInt8], creationTicket: Ticket, challenge: [UInt8],
        by signer: TPMObject
    ) throws(TPMError) -> SignedAttest {
        try result(
            of: .certifyCreation, on: [signer, object], authorizedBy: [.emptyPassword],
            parameters: TPMWriter(
                TPM2B(challenge), TPM2B(creationHash), Scheme.null, creationTicket))
    }

    /// `TPM2_NV_Certify` (section 31.16): attests the whole content of an index.
    ///
    /// - Parameter authorization: An authorization to read the index, by its own authValue.
    package func nvCertify(
        _ index: NVIndex, by signer: TPMObject, challenge: [UInt8],
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> SignedAttest {
        try result(
            of: .nvCertify, on: [signer, index, index],
            authorizedBy: [.emptyPassword, authorization],
            parameters: TPMWriter(
                TPM2B(challenge), Scheme.null, index.publicArea.dataSize, UInt16(0)))
    }

    /// `TPM2_ActivateCredential` (section 12.5): opens a credential that was encrypted to an
    /// endorsement key for one key. It succeeds only if both keys are in this TPM, and `key` has
    /// the Name for which the credential was made.
    ///
    /// - Parameters:
    ///   - blob: The content of `TPM2B_ID_OBJECT`.
    ///   - secret: The content of `TPM2B_ENCRYPTED_SECRET`.
    ///   - keyAuthorization: An authorization in the ADMIN role of `key`.
    ///   - endorsementAuthorization: An authorization of `endorsementKey`. To encrypt the
    ///     credential on the bus, one of the two must be a session that has the attribute
    ///     `encrypt`.
    ///   - body: Receives the credential. The memory is erased when it returns.
    package func activateCredential<R>(
        _ blob: [UInt8], secret: [UInt8], for key: TPMObject,
        authorizedBy keyAuthorization: Authorization,
        with endorsementKey: TPMObject, authorizedBy endorsementAuthorization: Authorization,
        _ body: (UnsafeRawBufferPointer) -> R
    ) throws(TPMError) -> R {
        try execute(
            .activateCredential, on: [key, endorsementKey],
            authorizedBy: [keyAuthorization, endorsementAuthorization],
            parameters: TPMWriter(TPM2B(blob), TPM2B(secret))
        ) { (reader, _) throws(TPMError) in
            var credential = try reader.readSized(maximum: 64)
            defer { credential.withUnsafeMutableBytes { wipeMemory($0) } }
            return credential.withUnsafeBytes(body)
        }
    }
}
