package import FoundationEssentials

/// An attestation key, wrapped by the TPM. Only the same TPM can use it, without any authorization.
package struct WrappedAttestationKey: Hashable, Sendable {
    /// `TPMT_PUBLIC`.
    package let publicArea: Data
    /// The content of a `TPM2B_PRIVATE`.
    package let privatePart: Data

    package init(publicArea: Data, privatePart: Data) {
        (self.publicArea, self.privatePart) = (publicArea, privatePart)
    }
}

/// The TPM's statement that the presence broker's approval key is in it.
package struct CertifiedApprovalKey: Hashable, Sendable {
    /// The approval key, `TPMT_PUBLIC`.
    package let publicArea: Data
    /// `TPMS_ATTEST` of `TPM2_Certify`.
    package let statement: Data
    /// The attestation key's signature.
    package let signature: ECDSASignature

    package init(publicArea: Data, statement: Data, signature: ECDSASignature) {
        (self.publicArea, self.statement, self.signature) = (publicArea, statement, signature)
    }
}
