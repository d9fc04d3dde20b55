internal import Crypto
package import FoundationEssentials
public import Latchkey

/// How the computer and a token share a secret that only the token can compute again.
///
/// The raw value is the version of the ``SealedBox/Header``.
enum KeyEstablishment: Int, Hashable, Sendable {
    /// Key agreement: ECDH over P-256 between a key on the token and a point with an unknown
    /// logarithm (NIST SP 800-56A).
    case agreement = 1
    /// The signature of an RSA key on the token, for tokens without ECDH. RSASSA-PKCS1-v1_5 is
    /// deterministic (RFC 8017 section 8.2).
    case signature = 2
}

/// A secret that is shared with a token (an x coordinate of 32 bytes, or a signature of 256 bytes),
/// and the header of the box that it encrypts.
typealias EstablishedSecret = (header: SealedBox.Header, secret: SecretBytes)

/// Sealing: the token has one key for each policy, which all secrets share. It is created when it
/// is first needed.
extension PKCS11Keystore {
    public func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        do throws(KeystoreError) {
            guard secret.count == SealedBox.secretBytes else {
                throw .invalidInput(
                    "the secret has \(secret.count) bytes and must have \(SealedBox.secretBytes)")
            }
            let snapshot = try await takeSnapshot()
            try snapshot.profile.check(policy)
            let shared =
                switch try await keyEstablishment(on: snapshot) {
                case .agreement: try await agreeOnSecret(policy, snapshot, prompt, presence)
                case .signature: try await signForSecret(policy, snapshot, prompt, presence)
                case nil: throw KeystoreError.noKeyEstablishment
                }
            do {
                let box = try SealedBox(
                    sealing: secret, header: shared.header, sharedSecret: shared.secret)
                return SealedSecret(
                    backend: backend, policy: policy, assurance: shared.header.terms.assurance,
                    blob: try DigestedStructure.serialized(box))
            } catch {
                throw KeystoreError(
                    code: .failed, reason: "encryption failed: \(error)", recovery: "Try again.")
            }
        } catch {
            throw error.during("seal a secret")
        }
    }

    public func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        do throws(KeystoreError) {
            let box = try box(of: secret)
            let shared =
                switch box.header.establishment {
                case .agreement: try await agreedSecret(box.header, prompt, presence)
                case .signature: try await signedSecret(box.header, prompt, presence)
                }
            do {
                return try box.open(sharedSecret: shared)
            } catch {
                throw KeystoreError.damaged(
                    "the sealed secret can't be decrypted with the token's key")
            }
        } catch {
            throw error.during("open a sealed secret")
        }
    }

    /// Compares the secret's token with the serial number in the URI, or else with the present
    /// token. A token without a serial number must have the sealing key. Needs no login.
    public func owns(_ secret: SealedSecret) async -> Bool? {
        guard secret.backend == backend else { return false }
        guard let header = try? box(of: secret).header else { return nil }
        do throws(KeystoreError) {
            if header.name.hasSerial {
                if let serial = uri.serialText { return serial == header.name.texts.serial }
                try await locator.withToken(named: header.name) { (_) throws(CryptokiError) in }
            } else {
                _ = try await sealingSnapshot(for: header)
            }
            return true
        } catch {
            return error.code == .wrongDevice ? false : nil
        }
    }

    /// Reads a stored secret, and checks that its policy and assurance are those in its stored
    /// bytes.
    func box(of secret: SealedSecret) throws(KeystoreError) -> SealedBox {
        guard secret.backend == backend else { throw .otherBackend(secret.backend) }
        let box: SealedBox
        do {
            box = try DigestedStructure.parsed(secret.blob, as: SealedBox.self)
        } catch {
            throw .damaged("the sealed secret can't be read: \(error)")
        }
        guard box.header.terms == KeyTerms(policy: secret.policy, assurance: secret.assurance)
        else {
            throw .damaged("the secret's policy or assurance does not match its stored bytes")
        }
        return box
    }

    /// How the token can share a secret; nil if it can't.
    func keyEstablishment(on snapshot: TokenSnapshot) async throws(KeystoreError)
        -> KeyEstablishment?
    {
        // OpenSC shows mechanisms for creating and using sealing keys on an OpenPGP card, but can't
        // create one.
        guard !snapshot.profile.isOpenPGP else { return nil }
        return try await agreementSnapshot(snapshot).token.inspect {
            (session) throws(CryptokiError) in
            if try session.supports(.ecdh1Derive) { return .agreement }
            guard session.profile.generator == .user, try session.supports(.sha256RSA) else {
                return nil
            }
            return try session.supports(.rsaKeyPairGeneration) ? .signature : nil
        }
    }
}

extension KeyPairRequest {
    /// The label of Latchkey's sealing keys.
    static let sealingLabel = "Latchkey sealing"

    /// A request for the sealing key of a policy.
    init(sealing use: Use, id: Data, policy: AccessPolicy) {
        self.init(
            id: id, label: Self.sealingLabel, use: use, isPrivate: policy.requirement != .none,
            alwaysAuthenticates: false)
    }

    /// The `CKA_ID` of the sealing key for a policy: 16 bytes, the same each time.
    static func sealingID(for policy: AccessPolicy, _ establishment: KeyEstablishment) -> Data {
        let access = policy.requirement == .none ? "open" : "guarded"
        return Data(
            SHA256.hash(
                data: Data("Latchkey sealing key \(establishment.rawValue): \(access)".utf8)
            ).prefix(16))
    }
}

extension KeystoreError {
    static var noKeyEstablishment: KeystoreError {
        .unsupported(
            "the token's module has neither key agreement (ECDH) nor RSA signatures",
            recovery: "Use a token that has one of them, or keep the secret in memory.")
    }
}

extension CryptokiError {
    static var unfitSealingKey: CryptokiError {
        CryptokiError(
            .unsound, reason: "the sealing key on the token does not have the required protection")
    }
}

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
