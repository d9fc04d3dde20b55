import Crypto
import Foundation
import Latchkey
import Synchronization

/// Stands in for a TPM until `LatchkeyTPM` has one.
final class StandInKeystore: Keystore {
    private let pins = Mutex<[KeyID: PIN]>([:])
    let backend = "tpm"

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        KeystoreCapabilities(device: "stand-in", root: .swtpm, requirements: [.none, .pin], canAttest: false)
    }

    func pinStatus() async throws(KeystoreError) -> PINStatus {
        PINStatus(attemptsLeft: 3, attemptLimit: 3, isLockedOut: false)
    }

    func createKey(_ request: KeyRequest, authorizedBy presence: any PresenceAuthority) async throws(KeystoreError)
        -> HardwareKey
    {
        if request.policy == .pin {
            guard case .pin(let pin) = try await presence.pin(PINRequest(purpose: .new, context: request.prompt)) else {
                throw .cancelled("create a key")
            }
            pins.withLock { $0[request.id] = pin }
        }
        let key = P256.Signing.PrivateKey()
        return HardwareKey(
            id: request.id, backend: backend, policy: request.policy,
            assurance: AssuranceLevel(root: .swtpm, presence: request.policy == .pin ? .pin : .none),
            publicKey: try PublicKey(x963Representation: key.publicKey.x963Representation), label: request.label,
            createdAt: Date(), blob: key.rawRepresentation)
    }

    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        if let expected = pins.withLock({ $0[key.id] }) {
            guard case .pin(let pin) = try await presence.pin(PINRequest(purpose: .current, context: prompt)) else {
                throw .cancelled("sign")
            }
            guard pin == expected else {
                throw KeystoreError(operation: "sign", code: .wrongProof, reason: "the PIN is wrong", recovery: "")
            }
        }
        guard
            let signer = try? P256.Signing.PrivateKey(rawRepresentation: key.blob),
            let made = try? signer.signature(for: Prehashed(digest.bytes)),
            let signature = ECDSASignature(rawRepresentation: made.rawRepresentation)
        else { throw .damaged("sign", "no key") }
        return signature
    }

    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        SealedSecret(
            backend: backend, policy: policy, assurance: AssuranceLevel(root: .swtpm, presence: .none),
            blob: secret.withUnsafeBytes { Data($0) })
    }

    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes { SecretBytes(secret.blob) }

    func delete(_ key: HardwareKey) async throws(KeystoreError) {}

    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) { (keys, secrets) }

    func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError) -> KeyAttestation {
        throw .unsupported("attest", "it is a stand-in", recovery: "")
    }
}

private struct Prehashed: Digest {
    static let byteCount = 32
    let bytes: [UInt8]
    init(_ bytes: [UInt8]) { self.bytes = bytes }
    var description: String { "" }
    func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try bytes.withUnsafeBytes(body)
    }
    func makeIterator() -> Array<UInt8>.Iterator { bytes.makeIterator() }
}

func makeKeystore() async throws -> any Keystore { StandInKeystore() }
