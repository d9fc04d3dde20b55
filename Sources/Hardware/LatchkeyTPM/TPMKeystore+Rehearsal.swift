package import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Creates and uses objects as the operations of a keystore do, and keeps none of them: a key
    /// that signs, a key with a PIN, and a secret that is sealed and opened.
    ///
    /// Stores nothing, also not the pin of the storage root key, and leaves nothing in the TPM: a
    /// missing storage root key is derived for each step. Proves no PIN, so that the TPM counts no
    /// attempt if the power is cut meanwhile.
    ///
    /// - Throws: The error that the operation would throw.
    package func rehearse() async throws(KeystoreError) {
        let keystore = TPMKeystore(rehearsing: self)
        let presence = try RehearsedPIN()
        let prompt = PromptContext(reason: "try the TPM", container: "")
        let key = try await keystore.createKey(
            KeyRequest(policy: .none, prompt: prompt), authorizedBy: presence)
        let digest = MessageDigest(sha256: PolicyDigest.random().bytes)
        _ = try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
        _ = try await keystore.createKey(
            KeyRequest(policy: .pin, prompt: prompt), authorizedBy: presence)
        let secret = SecretBytes.random(count: RevocableSecret.byteCount)
        let sealed = try await keystore.seal(
            secret, policy: .none, for: prompt, authorizedBy: presence)
        guard
            try await keystore.unseal(sealed, for: prompt, authorizedBy: presence) == secret
        else { throw .damaged("the TPM does not return the sealed bytes") }
    }
}

/// Answers with a random PIN, without a prompt.
private struct RehearsedPIN: PresenceAuthority {
    private let pin: PIN

    init() throws(KeystoreError) {
        pin = try PIN(PolicyDigest.random().bytes.prefix(8).map { String($0) }.joined())
    }

    func pin(_ request: PINRequest) -> PINAnswer { .pin(pin) }
}
