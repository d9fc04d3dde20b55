import Foundation
import Latchkey
import Synchronization

/// A keystore whose every use is noted.
final class WatchedKeystore: Keystore {
    private let keystore: any Keystore
    private let noted = Mutex<[String]>([])
    private let isDeaf = Mutex(false)

    init(_ keystore: any Keystore) { self.keystore = keystore }

    /// The names of all calls so far; uses that a policy gates end with `!`.
    var calls: [String] { noted.withLock { $0 } }
    func forget() { noted.withLock { $0 = [] } }

    /// Has every revocation fail from now on.
    func loseRevocations() { isDeaf.withLock { $0 = true } }

    private func note(_ call: String, _ policy: AccessPolicy = .none) {
        noted.withLock { $0.append(policy == .none ? call : call + "!") }
    }

    var backend: String { keystore.backend }

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        note("capabilities")
        return try await keystore.capabilities()
    }

    func pinStatus() async throws(KeystoreError) -> PINStatus {
        note("pinStatus")
        return try await keystore.pinStatus()
    }

    func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        note("createKey", request.policy)
        return try await keystore.createKey(request, authorizedBy: presence)
    }

    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        note("sign", key.policy)
        return try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
    }

    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        note("seal", policy)
        return try await keystore.seal(secret, policy: policy, for: prompt, authorizedBy: presence)
    }

    func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        note("seal", policy)
        return try await keystore.sealRevocably(secret, policy: policy, for: prompt, authorizedBy: presence)
    }

    func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        note("revoke")
        guard !isDeaf.withLock({ $0 }) else {
            throw KeystoreError(
                operation: "take a secret back", code: .transient, reason: "the test pulled the plug",
                recovery: "None.")
        }
        try await keystore.revoke(secret)
    }

    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        note("unseal", secret.policy)
        return try await keystore.unseal(secret, for: prompt, authorizedBy: presence)
    }

    func delete(_ key: HardwareKey) async throws(KeystoreError) {
        note("delete", key.policy)
        try await keystore.delete(key)
    }

    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        note("changePIN!")
        return try await keystore.changePIN(of: keys, secrets: secrets, for: prompt, authorizedBy: presence)
    }

    func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError) -> KeyAttestation {
        note("attest")
        return try await keystore.attest(key, challenge: challenge)
    }
}
