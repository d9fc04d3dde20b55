package import FoundationEssentials
package import Latchkey

/// A token has no command for HMAC, so the MAC key is a sealed secret.
extension PKCS11Keystore: PasskeyKeystore {
    package func createMACKey(
        policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        try await seal(.random(count: 32), policy: policy, for: prompt, authorizedBy: presence)
    }

    package func sign(
        with key: HardwareKey, after messages: [Data], with macKey: SealedSecret,
        for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        digest: @Sendable ([SecretBytes]) throws(KeystoreError) -> MessageDigest
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes]) {
        // The session repeats a PIN that the token has accepted.
        let session = PresenceSession(presence)
        let secret = try await unseal(macKey, for: prompt, authorizedBy: session)
        let codes = messages.map { secret.authenticationCode(for: $0) }
        return (try await sign(digest(codes), with: key, for: prompt, authorizedBy: session), codes)
    }
}
