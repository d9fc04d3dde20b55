import Foundation
import Latchkey
import Synchronization

/// A keystore that counts what it is asked for, and can be made to fail at one of its calls.
final class CountingKeystore: Keystore {
    private struct State {
        var calls: [String] = []
        var failure: (call: Int, side: Side)?
    }

    /// On which side of the hardware's work the program loses it.
    enum Side: CaseIterable {
        case before
        case after
    }

    private let keystore: any Keystore
    private let state = Mutex(State())

    init(_ keystore: any Keystore) { self.keystore = keystore }

    var backend: String { keystore.backend }

    /// The names of all calls so far.
    var calls: [String] { state.withLock { $0.calls } }

    /// Makes the `index`th call from now on fail; the first is 0.
    func fail(at index: Int, _ side: Side) {
        state.withLock { $0.failure = ($0.calls.count + index, side) }
    }

    func heal() { state.withLock { $0.failure = nil } }

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        try await call("capabilities") { () throws(KeystoreError) in try await keystore.capabilities() }
    }

    func pinStatus() async throws(KeystoreError) -> PINStatus {
        try await call("pinStatus") { () throws(KeystoreError) in try await keystore.pinStatus() }
    }

    func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        try await keystore.createKey(request, authorizedBy: presence)
    }

    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
    }

    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        try await call("seal") { () throws(KeystoreError) in
            try await keystore.seal(secret, policy: policy, for: prompt, authorizedBy: presence)
        }
    }

    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        try await call("unseal") { () throws(KeystoreError) in
            try await keystore.unseal(secret, for: prompt, authorizedBy: presence)
        }
    }

    func delete(_ key: HardwareKey) async throws(KeystoreError) { try await keystore.delete(key) }

    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        try await keystore.changePIN(of: keys, secrets: secrets, for: prompt, authorizedBy: presence)
    }

    func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError) -> KeyAttestation {
        try await keystore.attest(key, challenge: challenge)
    }

    private func call<R>(
        _ name: String, _ body: () async throws(KeystoreError) -> R
    ) async throws(KeystoreError) -> R {
        let failure = state.withLock { state in
            defer { state.calls.append(name) }
            return state.failure.flatMap { $0.call == state.calls.count ? $0.side : nil }
        }
        if failure == .before { throw Self.lost }
        let result = try await body()
        if failure == .after { throw Self.lost }
        return result
    }

    private static let lost = KeystoreError(
        operation: "use the hardware", code: .failed, reason: "the test pulled the plug", recovery: "None.")
}
