package import Latchkey
internal import Synchronization

/// A keystore that records its calls, and can fail at one of them.
package final class CountingKeystore: KeystoreWrapper {
    private struct State {
        var calls: [String] = []
        var failure: (call: Int, side: Side)?
        var reuseEndings = 0
    }

    /// When a planned failure happens.
    package enum Side: CaseIterable, Sendable {
        /// Before the call reaches the hardware.
        case before
        /// After the hardware has done its work, so that only the answer is lost.
        case after
    }

    package let keystore: any Keystore
    private let state = Mutex(State())

    /// Records the calls to this keystore.
    package init(_ keystore: any Keystore) { self.keystore = keystore }

    /// The names of the calls so far.
    package var calls: [String] { state.withLock { $0.calls } }

    /// Plans a failure of the call with this index from now on, counted from 0.
    package func fail(at index: Int, _ side: Side) {
        state.withLock { $0.failure = ($0.calls.count + index, side) }
    }

    /// Removes the planned failure.
    package func clearFailure() { state.withLock { $0.failure = nil } }

    package func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        try await call("capabilities") { () throws(KeystoreError) in
            try await keystore.capabilities()
        }
    }

    package func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        try await call("pinStatus") { () throws(KeystoreError) in
            try await keystore.pinStatus(of: subject)
        }
    }

    package func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        try await call("createRevocableKey") { () throws(KeystoreError) in
            try await keystore.revoking().createRevocableKey(
                request, authorizedBy: presence, willCreate: willCreate)
        }
    }

    package func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        try await call("seal") { () throws(KeystoreError) in
            try await keystore.seal(secret, policy: policy, for: prompt, authorizedBy: presence)
        }
    }

    package func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        try await call("sealRevocably") { () throws(KeystoreError) in
            try await keystore.revoking().sealRevocably(
                secret, policy: policy, for: prompt, authorizedBy: presence, willCreate: willCreate)
        }
    }

    package func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        try await call("revoke") { () throws(KeystoreError) in
            try await keystore.revoking().revoke(secret)
        }
    }

    package func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        try await call("unseal") { () throws(KeystoreError) in
            try await keystore.unseal(secret, for: prompt, authorizedBy: presence)
        }
    }

    /// The number of calls of `endReuse()`, which are not in ``calls``.
    package var reuseEndings: Int { state.withLock { $0.reuseEndings } }

    package func endReuse() {
        state.withLock { $0.reuseEndings += 1 }
        keystore.endReuse()
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
        operation: "use the hardware", code: .failed, reason: "the test planned this failure",
        recovery: "None.")
}
