public import FoundationEssentials
public import Latchkey
internal import Synchronization

/// A keystore that counts what it is asked for, and can be made to fail at one of its calls.
public final class CountingKeystore: Keystore {
    private struct State {
        var calls: [String] = []
        var failure: (call: Int, side: Side)?
        var reuseEndings = 0
    }

    /// On which side of the hardware's work the program loses it.
    public enum Side: CaseIterable, Sendable {
        /// The call never reaches the hardware.
        case before
        /// The hardware did it, and the answer is lost.
        case after
    }

    private let keystore: any Keystore
    private let state = Mutex(State())

    /// Counts what this keystore is asked for.
    public init(_ keystore: any Keystore) { self.keystore = keystore }

    public var backend: String { keystore.backend }
    public var mayHaveReader: Bool { keystore.mayHaveReader }

    /// The names of all calls so far.
    public var calls: [String] { state.withLock { $0.calls } }

    /// Makes the `index`th call from now on fail; the first is 0.
    public func fail(at index: Int, _ side: Side) {
        state.withLock { $0.failure = ($0.calls.count + index, side) }
    }

    /// Takes a planned failure back.
    public func heal() { state.withLock { $0.failure = nil } }

    public func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        try await call("capabilities") { () throws(KeystoreError) in try await keystore.capabilities() }
    }

    public func pinStatus() async throws(KeystoreError) -> PINStatus {
        try await call("pinStatus") { () throws(KeystoreError) in try await keystore.pinStatus() }
    }

    public func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        try await keystore.createKey(request, authorizedBy: presence)
    }

    public func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        announcing announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        try await call("createRevocableKey") { () throws(KeystoreError) in
            try await keystore.createRevocableKey(request, authorizedBy: presence, announcing: announce)
        }
    }

    public func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
    }

    public func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        try await call("seal") { () throws(KeystoreError) in
            try await keystore.seal(secret, policy: policy, for: prompt, authorizedBy: presence)
        }
    }

    public func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        announcing announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        try await call("sealRevocably") { () throws(KeystoreError) in
            try await keystore.sealRevocably(
                secret, policy: policy, for: prompt, authorizedBy: presence, announcing: announce)
        }
    }

    public func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        try await call("revoke") { () throws(KeystoreError) in try await keystore.revoke(secret) }
    }

    public func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        try await call("unseal") { () throws(KeystoreError) in
            try await keystore.unseal(secret, for: prompt, authorizedBy: presence)
        }
    }

    /// How often reuse was ended. It is none of the ``calls``.
    public var reuseEndings: Int { state.withLock { $0.reuseEndings } }

    public func endReuse() {
        state.withLock { $0.reuseEndings += 1 }
        keystore.endReuse()
    }

    public func delete(_ key: HardwareKey) async throws(KeystoreError) { try await keystore.delete(key) }

    public func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        try await keystore.changePIN(of: keys, secrets: secrets, for: prompt, authorizedBy: presence)
    }

    public func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError) -> KeyAttestation {
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
