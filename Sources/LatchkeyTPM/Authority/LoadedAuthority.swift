internal import TPM2

/// The approval key while it is at hand, with what it takes to use it.
struct LoadedAuthority {
    let tpm: TPM
    let key: TPMObject
    /// The storage root key.
    let parent: TPMObject
    let authValue: AuthValue

    /// Signs what an approval says: StartAuthSession, Sign.
    func sign(_ approval: Approval) throws(TPMError) -> TPMSignature {
        try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
            try tpm.sign(approval.digest, with: key, authorizedBy: .lastUse(of: session, authValue: authValue))
        }
    }

    /// Approves a write of the broker's own, in a session that it alone uses.
    ///
    /// The session is salted, so its HMAC covers the Name of the index: one that somebody made anew, and that was never
    /// written, is not written in place of the one that is meant.
    ///
    /// - Parameter branches: Those of the index's policy.
    func withApproval<R>(
        of reference: [UInt8], among branches: [PolicyDigest] = [], _ body: (Authorization) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try tpm.withSession(.policy, saltedTo: parent) { (session) throws(TPMError) in
            let approval = Approval(nonceTPM: session.nonceTPM, policyRef: reference)
            _ = try tpm.policySigned(approval, signature: try sign(approval), by: key, in: session)
            if branches.count > 1 { try tpm.policyOR(branches, in: session) }
            return try body(.lastUse(of: session))
        }
    }
}
