internal import Crypto
package import FoundationEssentials

/// A keystore that can also keep MAC keys and use several keys with one prompt, as passkeys
/// require.
package protocol PasskeyKeystore: Keystore {
    /// Creates a secret key of 32 bytes for HMAC-SHA256, under a policy.
    ///
    /// If the hardware computes HMACs, the key never leaves it. Otherwise the hardware seals the
    /// key, and unseals it for each use into locked memory. If the policy includes a PIN of the
    /// key, `presence` prompts for a new one.
    func createMACKey(
        policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret

    /// Computes HMACs with one key, then signs with another one of the same policy. The user is
    /// prompted once. The hardware requires a proof for each of these uses; a fingerprint approval
    /// is bound to the digest or the message.
    ///
    /// - Parameters:
    ///   - messages: One or two messages of 32 bytes.
    ///   - macKey: A key of ``createMACKey(policy:for:authorizedBy:)``.
    ///   - digest: Computes the digest to sign from the HMACs. Called once.
    /// - Returns: The signature, which was verified, and one HMAC of 32 bytes for each message.
    /// - Throws: ``KeystoreError``, as ``Keystore/sign(_:with:for:authorizedBy:)``, and the errors
    ///   of `digest`.
    func sign(
        with key: HardwareKey, after messages: [Data], with macKey: SealedSecret,
        for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        digest: @Sendable ([SecretBytes]) throws(KeystoreError) -> MessageDigest
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes])
}

extension SecretBytes {
    /// Computes HMAC-SHA-256 with these bytes as the key: 32 bytes.
    package func authenticationCode(for message: Data) -> SecretBytes {
        withUnsafeBytes { key in
            let code = HMAC<SHA256>.authenticationCode(for: message, using: SymmetricKey(data: key))
            return code.withUnsafeBytes { SecretBytes($0) }
        }
    }
}
