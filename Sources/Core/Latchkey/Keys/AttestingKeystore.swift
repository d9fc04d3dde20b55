public import FoundationEssentials

/// A keystore that attests with attestation keys, which issuers certify after an activation: a TPM.
/// A token attests with a key that its manufacturer certified, and needs none of this.
public protocol AttestingKeystore: Keystore {
    /// Returns the hardware's identity towards one issuer of certificates for attestation keys.
    /// Does not prompt. Creates the attestation key at the first use.
    ///
    /// **The endorsement certificates identify the machine permanently.** Send them only to an
    /// issuer that announces support, and tell the user before.
    ///
    /// - Parameter issuer: The URL of the issuer; `""` is the key for local use. Each issuer gets
    ///   its own attestation key.
    /// - Throws: ``KeystoreError``.
    func attestationIdentity(for issuer: String) async throws(KeystoreError) -> AttestationIdentity

    /// Opens an issuer's challenge. This proves that the attestation key for the issuer and the
    /// endorsement key are in the same TPM. Does not prompt. May take some seconds if the
    /// endorsement key is not kept in the TPM.
    ///
    /// - Returns: The secret to return to the issuer.
    /// - Throws: ``KeystoreError``; `refused` if the challenge is not for this TPM and attestation
    ///   key, `unsupported` if the TPM has no endorsement key with a certificate.
    func activate(_ challenge: ActivationChallenge, for issuer: String) async throws(KeystoreError)
        -> SecretBytes

    /// Stores the certificate that an issuer returned after ``activate(_:for:)``, in place of an
    /// earlier one.
    ///
    /// If the process ends before this call, ``attestationIdentity(for:)`` returns the same
    /// attestation key without a certificate, and the activation can be repeated.
    ///
    /// - Parameter certificates: The certificate of the attestation key and its issuers', DER
    ///   (`x5c`).
    /// - Throws: ``KeystoreError``; `invalidInput` unless the first certificate is that of the
    ///   attestation key for the issuer.
    func keepAttestationCertificates(_ certificates: [Data], for issuer: String)
        async throws(KeystoreError)

    /// Deletes the attestation key for an issuer and its certificate. The next use creates another
    /// one, which the issuer cannot link to the old one by the key. Forgetting an issuer again is
    /// no error.
    func forgetAttestation(for issuer: String) async throws(KeystoreError)

    /// Returns the issuers for which there is an attestation key, in alphabetical order. Does not
    /// use the hardware.
    func attestationIssuers() async throws(KeystoreError) -> [String]
}

extension Keystore {
    /// This keystore as one with attestation keys.
    ///
    /// - Throws: ``KeystoreError`` with code `unsupported` for hardware without an endorsement key.
    package func attesting() throws(KeystoreError) -> any AttestingKeystore {
        if let attesting = self as? any AttestingKeystore { return attesting }
        throw .unsupported(
            "this hardware has no endorsement key",
            recovery: "Attest the key without an activation, or use a TPM.")
    }
}
