internal import FoundationEssentials
public import Latchkey

/// Sealing: the token has one key for each policy, made when it is first needed and shared by all secrets. How a secret
/// is shared with it depends on what the token can do, see ``KeyEstablishment``.
extension PKCS11Keystore {
    public func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        let operation = "seal a secret"
        guard secret.count == SealedBox.secretBytes else {
            throw .invalidInput(operation, "it has \(secret.count) bytes and must have \(SealedBox.secretBytes)")
        }
        let place = try await look(operation)
        try place.nature.check(policy, operation)
        let shared =
            switch try await keyEstablishment(at: place, operation) {
            case .agreement: try await agreeOnSecret(policy, place, prompt, operation, presence)
            case .signature: try await signForSecret(policy, place, prompt, operation, presence)
            case nil:
                throw KeystoreError.unsupported(
                    operation, "the token's module has neither key agreement (ECDH) nor RSA signatures",
                    recovery: "Use a token that has, or keep in memory what would be stored.")
            }
        do {
            let box = try SealedBox(sealing: secret, header: shared.header, sharedSecret: shared.secret)
            return SealedSecret(
                backend: backend, policy: policy, assurance: shared.header.terms.assurance,
                blob: try DigestedStructure.serialized(box))
        } catch {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "it can't be encrypted: \(error)", recovery: "Try again.")
        }
    }

    public func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let operation = "open a sealed secret"
        let box = try box(of: secret, operation)
        let header = box.header
        let shared =
            switch header.message {
            case .agreement:
                try await agreedSecret(header, prompt, operation, presence)
            case .signature:
                try await signedSecret(header, prompt, operation, presence)
            }
        do {
            return try box.open(sharedSecret: shared)
        } catch {
            throw .damaged(operation, "its stored bytes don't open with the token's key")
        }
    }

    /// Reads a stored secret, and holds what is said in the open against what the box says.
    func box(of secret: SealedSecret, _ operation: String) throws(KeystoreError) -> SealedBox {
        guard secret.backend == backend else { throw .otherBackend(operation, secret.backend) }
        let box: SealedBox
        do {
            box = try DigestedStructure.parsed(secret.blob, as: SealedBox.self)
        } catch {
            throw .damaged(operation, "its stored bytes can't be read: \(error)")
        }
        guard box.header.terms == KeyTerms(policy: secret.policy, assurance: secret.assurance) else {
            throw .damaged(operation, "its policy or assurance is not that of its stored bytes")
        }
        return box
    }

    /// How the token can share a secret, or nil where it can't.
    func keyEstablishment(
        at place: TokenSight, _ operation: String
    ) async throws(KeystoreError) -> KeyEstablishment? {
        let token = try await agreeing(place, operation).token
        do {
            return try await token.perform { (session) throws(CryptokiError) in
                if try session.supports(.ecdh1Derive) { return .agreement }
                guard session.profile.generator == .user, try session.supports(.sha256RSA) else { return nil }
                return try session.supports(.rsaKeyPairGeneration) ? .signature : nil
            }
        } catch {
            throw failure(error, operation, token)
        }
    }
}
