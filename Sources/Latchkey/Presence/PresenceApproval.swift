/// The broker's word that the person was there, for one use of one key in one session of the TPM.
package struct PresenceApproval: Hashable, Sendable {
    /// Seconds since the session's nonce was made during which it holds; negative where the policy lets one finger
    /// serve for that long.
    package var expiration: Int32
    /// Over `aHash` (TPM 2.0 Part 3 section 23.3).
    package var signature: ECDSASignature

    /// An approval as the broker signed it.
    package init(expiration: Int32, signature: ECDSASignature) {
        self.expiration = expiration
        self.signature = signature
    }
}
