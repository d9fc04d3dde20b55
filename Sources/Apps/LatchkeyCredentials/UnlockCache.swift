internal import Latchkey
internal import Synchronization

/// The open key-encryption keys of credentials with a policy, one for each credential. A key is
/// open only while its credential is used: one user verification is valid for one use of one
/// credential.
///
/// Overlapping uses of the same credential share a verification. The parts of one operation, and a
/// refresh that several tasks wait for, prompt once. Every other credential has another key and
/// requires another verification, like the items of a keychain.
final class UnlockCache: Sendable {
    /// The facade in the names of the keys.
    static let facade = "credentials"
    /// The prefix of the names of the keys.
    static let prefix = "\(facade)."

    private let records: RecordContainer
    private let users = Mutex<[String: Int]>([:])

    init(records: RecordContainer) {
        self.records = records
    }

    /// Runs `body` with the device key and the given key open. May prompt before `body`.
    func withOpen<R>(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        _ body: () async throws -> R
    ) async throws -> R {
        try await records.open(.device, for: prompt, authorizedBy: NobodyPresent())
        guard protection.name != ProtectionClass.device.name else { return try await body() }
        return try await using(protection) {
            try await records.open(protection, for: prompt, authorizedBy: presence)
            return try await body()
        }
    }

    /// Runs `body` with the device key and a new key open. Prompts before `body`.
    func withNew<R>(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        _ body: (PreparedClass) async throws -> R
    ) async throws -> R {
        try await records.open(.device, for: prompt, authorizedBy: NobodyPresent())
        return try await using(protection) {
            try await body(
                records.prepare(
                    protection, revocably: .preferred, for: prompt, authorizedBy: presence))
        }
    }

    /// Locks the key after its last use.
    private func using<R>(_ protection: ProtectionClass, _ body: () async throws -> R) async throws
        -> R
    {
        users.withLock { $0[protection.name, default: 0] += 1 }
        defer {
            users.withLock { users in
                let rest = users[protection.name, default: 1] - 1
                users[protection.name] = rest == 0 ? nil : rest
                if rest == 0 { records.lock(prefix: protection.name) }
            }
        }
        return try await body()
    }
}
