internal import FoundationEssentials
public import Latchkey

extension PKCS11Keystore {
    /// Changes the PIN of the token, which is that of everything on it. The keys and secrets come back as they are.
    ///
    /// Nothing happens when none of them has a PIN.
    ///
    /// - Throws: ``KeystoreError``; `unsupported` where the token asks for PIN or finger by itself, `invalidInput` for a
    ///   new PIN of a length that the token does not take.
    public func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        let operation = "change the PIN"
        var guarded: [(name: TokenName, hash: Data)] = []
        for key in keys {
            let blob = try blob(of: key, operation)
            if key.policy.requirement != .none { guarded.append((blob.name, blob.publicKeyHash)) }
        }
        for secret in secrets {
            let header = try box(of: secret, operation).header
            if secret.policy.requirement != .none { guarded.append((header.name, header.publicKeyHash)) }
        }
        guard let first = guarded.first else { return (keys, secrets) }
        let sight = try await look(operation, for: first.name, withHash: first.hash)
        for other in guarded.dropFirst() {
            _ = try await look(operation, for: other.name, withHash: other.hash)
        }
        try await changePIN(on: sight, for: prompt, operation, presence)
        return (keys, secrets)
    }

    private func changePIN(
        on sight: TokenSight, for prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        guard !sight.nature.asksItself else {
            throw .unsupported(
                operation, "the token asks for PIN or finger by itself",
                recovery: "Change it with the token's or the reader's own tool.")
        }
        let old = try await userProof(sight, for: prompt, operation, presence)
        let new = try await ask(PINRequest(purpose: .new, context: prompt), operation, presence)
        let count = new.withUnsafeBytes { $0.count }
        if let range = sight.information.pinLength, !range.contains(count) {
            throw .invalidInput(
                operation,
                "the token takes PINs of \(range.lowerBound) to \(range.upperBound) bytes, and the new one has \(count)"
            )
        }
        let login = sight.login
        do {
            try await sight.token.perform { (session) throws(CryptokiError) in
                login.forget()
                try session.logout()
                // tpm2-pkcs11 1.9.0 answers CKR_OK to a C_SetPIN without a login, also where the TPM refused the old PIN.
                try session.login(.user, with: old)
                defer { try? session.logout() }
                try session.changePIN(from: old, to: .pin(new))
            }
        } catch {
            throw await explained(error, operation, sight)
        }
    }
}
