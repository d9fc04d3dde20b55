public import Latchkey

extension PKCS11Keystore {
    /// Changes the token's PIN, which protects everything on it. Returns the keys and secrets unchanged.
    ///
    /// Does nothing if none of them has a PIN.
    ///
    /// - Throws: `KeystoreError`; `unsupported` if the token verifies the user itself, `invalidInput` for a new PIN of a length
    ///   that the token does not accept.
    public func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        let operation = "change the PIN"
        var snapshot: TokenSnapshot?
        for key in keys {
            let blob = try TokenKeyBlob.of(key, operation)
            guard key.policy.requirement != .none else { continue }
            snapshot = try await takeSnapshot(operation, for: blob.name, withHash: blob.publicKeyHash)
        }
        for secret in secrets {
            let header = try box(of: secret, operation).header
            guard secret.policy.requirement != .none else { continue }
            snapshot = try await takeSnapshot(operation, for: header)
        }
        guard let snapshot else { return (keys, secrets) }
        try await changePIN(on: snapshot, for: prompt, operation, presence)
        return (keys, secrets)
    }

    private func changePIN(
        on snapshot: TokenSnapshot, for prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        guard !snapshot.profile.verifiesUserItself else {
            throw .unsupported(
                operation, "the token prompts for the PIN or fingerprint on its own reader",
                recovery: "Change it with the token's or the reader's own tool.")
        }
        let old = try await userProof(snapshot, for: prompt, operation, presence)
        let new = try await presence.givenPIN(PINRequest(purpose: .new, context: prompt), to: operation)
        try snapshot.profile.checkNew(new, operation)
        let login = snapshot.login
        do {
            try await snapshot.token.perform { (session) throws(CryptokiError) in
                login.forget()
                try session.logout()
                // tpm2-pkcs11 1.9.0 answers CKR_OK to a C_SetPIN without a login even if the TPM refused the old PIN.
                try session.login(.user, with: old)
                defer { try? session.logout() }
                // A PIN error after the login concerns the new PIN, whatever the module reports.
                try session.changePIN(from: old, to: .pin(new))
            }
        } catch {
            if let refusal = KeystoreError.newPINRefused(operation, error) { throw refusal }
            throw await explained(error, operation, snapshot)
        }
    }
}
