internal import Crypto
internal import FoundationEssentials
public import Latchkey

/// How the computer and a token share a secret that only the token can compute again.
enum KeyEstablishment: Hashable, Sendable {
    /// Key agreement: ECDH over P-256 between a key on the token and a point with an unknown logarithm (NIST SP 800-56A).
    case agreement
    /// The signature of an RSA key on the token, for tokens without ECDH. RSASSA-PKCS1-v1_5 is deterministic (RFC 8017
    /// section 8.2).
    case signature
}

/// A secret that is shared with a token, and the header of the box that it encrypts.
struct EstablishedSecret: Sendable {
    let header: SealedBox.Header
    /// An x coordinate of 32 bytes, or a signature of 256.
    let secret: SecretBytes
}

/// Sealing: the token has one key for each policy, which all secrets share. It is created when it is first needed.
extension PKCS11Keystore {
    public func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        let operation = "seal a secret"
        guard secret.count == SealedBox.secretBytes else {
            throw .invalidInput(operation, "it has \(secret.count) bytes and must have \(SealedBox.secretBytes)")
        }
        let snapshot = try await takeSnapshot(operation)
        try snapshot.profile.check(policy, operation)
        let shared =
            switch try await keyEstablishment(on: snapshot, operation) {
            case .agreement: try await agreeOnSecret(policy, snapshot, prompt, operation, presence)
            case .signature: try await signForSecret(policy, snapshot, prompt, operation, presence)
            case nil:
                throw KeystoreError.unsupported(
                    operation, "the token's module has neither key agreement (ECDH) nor RSA signatures",
                    recovery: "Use a token that has one of them, or keep the secret in memory.")
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
        let shared =
            switch box.header.message {
            case .agreement: try await agreedSecret(box.header, prompt, operation, presence)
            case .signature: try await signedSecret(box.header, prompt, operation, presence)
            }
        do {
            return try box.open(sharedSecret: shared)
        } catch {
            throw .damaged(operation, "its stored bytes can't be decrypted with the token's key")
        }
    }

    /// Reads a stored secret, and checks that its policy and assurance are those in its stored bytes.
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

    /// How the token can share a secret; nil if it can't.
    func keyEstablishment(
        on snapshot: TokenSnapshot, _ operation: String
    ) async throws(KeystoreError) -> KeyEstablishment? {
        let token = try await agreementSnapshot(snapshot, operation).token
        return try await inspect(token, operation) { (session) throws(CryptokiError) in
            if try session.supports(.ecdh1Derive) { return .agreement }
            guard session.profile.generator == .user, try session.supports(.sha256RSA) else { return nil }
            return try session.supports(.rsaKeyPairGeneration) ? .signature : nil
        }
    }
}

extension KeyPairRequest {
    /// A request for the sealing key of a policy.
    init(sealing use: Use, id: Data, policy: AccessPolicy) {
        self.init(
            id: id, label: "Latchkey sealing", use: use, isPrivate: policy.requirement != .none,
            alwaysAuthenticates: false)
    }

    /// The `CKA_ID` of the sealing key for a policy: 16 bytes, the same each time.
    ///
    /// - Parameter version: ``SealedBox/Message/version`` of the boxes that the key opens.
    static func sealingID(for policy: AccessPolicy, version: Int) -> Data {
        let access = policy.requirement == .none ? "open" : "guarded"
        return Data(SHA256.hash(data: Data("Latchkey sealing key \(version): \(access)".utf8)).prefix(16))
    }
}

extension CryptokiError {
    static var unfitSealingKey: CryptokiError {
        CryptokiError(.unsound, reason: "the sealing key on the token does not have the required protection")
    }
}
