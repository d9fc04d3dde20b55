internal import FoundationEssentials
public import Latchkey

extension PKCS11Keystore {
    /// Changes the PIN of the token, which is that of everything on it. The keys and secrets come back as they are.
    ///
    /// Nothing happens when none of them has a PIN.
    ///
    /// - Throws: `KeystoreError`; `unsupported` where the token asks for PIN or finger by itself, `invalidInput` for a
    ///   new PIN of a length that the token does not take.
    public func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        let operation = "change the PIN"
        var sight: TokenSight?
        for key in keys {
            let blob = try TokenKeyBlob.of(key, operation)
            guard key.policy.requirement != .none else { continue }
            sight = try await look(operation, for: blob.name, withHash: blob.publicKeyHash)
        }
        for secret in secrets {
            let header = try box(of: secret, operation).header
            guard secret.policy.requirement != .none else { continue }
            sight = try await look(operation, for: header)
        }
        guard let sight else { return (keys, secrets) }
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
        let new = try await presence.givenPIN(PINRequest(purpose: .new, context: prompt), to: operation)
        try sight.nature.checkNew(new, operation)
        let login = sight.login
        do {
            try await sight.token.perform { (session) throws(CryptokiError) in
                login.forget()
                try session.logout()
                // tpm2-pkcs11 1.9.0 answers CKR_OK to a C_SetPIN without a login, also where the TPM refused the old PIN.
                try session.login(.user, with: old)
                defer { try? session.logout() }
                // And a PIN that fails after this is the new one, whatever the module says of it.
                try session.changePIN(from: old, to: .pin(new))
            }
        } catch {
            if let refusal = KeystoreError.newPINRefused(operation, error) { throw refusal }
            throw await explained(error, operation, sight)
        }
    }
}

extension KeystoreError {
    /// What it means that a PIN was not set after somebody had logged in to set it; nil where it is not for the new PIN.
    static func newPINRefused(_ operation: String, _ error: CryptokiError) -> KeystoreError? {
        guard error.function == "C_SetPIN" || error.function == "C_InitPIN", error.blamesNewPIN else { return nil }
        return KeystoreError(
            operation: operation, code: .invalidInput, reason: "the token does not take the new PIN",
            recovery: "Choose another one, of six to eight digits if nothing else is known; the old one holds.",
            underlying: Underlying(error))
    }
}

extension CryptokiError {
    /// Whether a module says so of a PIN that it does not set. OpenSC passes on what its card says of the data.
    fileprivate var blamesNewPIN: Bool {
        switch returnValue {
        case .pinInvalid, .pinLenRange, .pinTooWeak, .dataInvalid, .dataLenRange, .argumentsBad: true
        default: false
        }
    }
}
