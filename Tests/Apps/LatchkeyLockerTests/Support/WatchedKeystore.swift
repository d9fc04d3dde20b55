import Foundation
import Latchkey
import LatchkeyTestSupport
import Synchronization

/// A keystore that records each call as a step of the program.
final class WatchedKeystore: KeystoreWrapper {
    let keystore: any Keystore
    private let steps: Steps
    private let noted = Mutex<[String]>([])
    private let endings = Mutex(0)
    private let isDeaf = Mutex(false)
    private let forged = Mutex<KeystoreError?>(nil)

    init(_ keystore: any Keystore, steps: Steps = Steps()) {
        self.keystore = keystore
        self.steps = steps
    }

    /// The names of all calls so far. Uses with user verification end with `!`.
    var calls: [String] { noted.withLock { $0 } }
    func forget() { noted.withLock { $0 = [] } }

    /// Makes every revocation fail from now on.
    func loseRevocations() { isDeaf.withLock { $0 = true } }

    /// Makes the next signature with user verification fail after the prompt, as an attacker on the
    /// hardware's wire can.
    func forge(_ error: KeystoreError) { forged.withLock { $0 = error } }

    /// How often proof reuse was ended; not one of the ``calls``.
    var reuseEndings: Int { endings.withLock { $0 } }

    private func step<R>(
        _ call: String, _ policy: AccessPolicy = .none, _ body: () async throws(KeystoreError) -> R
    ) async throws(KeystoreError) -> R {
        let name = policy == .none ? call : call + "!"
        noted.withLock { $0.append(name) }
        return try await steps.perform(name, failing: Self.lost, body)
    }

    private static let lost = KeystoreError(
        operation: "use the hardware", code: .failed, reason: "the plug was pulled",
        recovery: "Put it in.")

    func endReuse() {
        endings.withLock { $0 += 1 }
        keystore.endReuse()
    }

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        try await step("capabilities") { () throws(KeystoreError) in
            try await keystore.capabilities()
        }
    }

    func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        try await step("pinStatus") { () throws(KeystoreError) in
            try await keystore.pinStatus(of: subject)
        }
    }

    func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        try await step("createKey", request.policy) { () throws(KeystoreError) in
            try await keystore.createKey(request, authorizedBy: presence)
        }
    }

    func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        try await step("createKey", request.policy) { () throws(KeystoreError) in
            try await keystore.revoking().createRevocableKey(
                request, authorizedBy: presence, willCreate: willCreate)
        }
    }

    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        try await step("sign", key.policy) { () throws(KeystoreError) in
            let signature = try await keystore.sign(
                digest, with: key, for: prompt, authorizedBy: presence)
            if key.policy != .none, let error = forged.withLock({ $0.take() }) { throw error }
            return signature
        }
    }

    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        try await step("seal", policy) { () throws(KeystoreError) in
            try await keystore.seal(secret, policy: policy, for: prompt, authorizedBy: presence)
        }
    }

    func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        try await step("seal", policy) { () throws(KeystoreError) in
            try await keystore.revoking().sealRevocably(
                secret, policy: policy, for: prompt, authorizedBy: presence, willCreate: willCreate)
        }
    }

    func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        try await step("revoke") { () throws(KeystoreError) in
            guard !isDeaf.withLock({ $0 }) else { throw Self.lost }
            try await keystore.revoking().revoke(secret)
        }
    }

    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        try await step("unseal", secret.policy) { () throws(KeystoreError) in
            try await keystore.unseal(secret, for: prompt, authorizedBy: presence)
        }
    }

    func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) {
        try await step("delete", key.policy) { () throws(KeystoreError) in
            try await keystore.delete(key, for: prompt, authorizedBy: presence)
        }
    }

    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        try await step("changePIN!") { () throws(KeystoreError) in
            try await keystore.changePIN(
                of: keys, secrets: secrets, for: prompt, authorizedBy: presence)
        }
    }

    func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation {
        try await step("attest") { () throws(KeystoreError) in
            try await keystore.attest(key, for: request, authorizedBy: presence)
        }
    }
}
