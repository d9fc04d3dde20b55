internal import Latchkey
internal import Synchronization

/// The classes for which somebody has to be present, one for each credential. Each is open only while its credential is
/// used: one proof serves for one use of one credential.
///
/// Uses of the same credential that overlap share a proof, so that nobody is asked again for the parts of one operation,
/// or for a refresh that several tasks have joined. Another credential, of the same policy or not, has a key of its own,
/// and asks for a proof of its own, as the items of a keychain do.
final class Gates: Sendable {
    /// What such classes are called.
    static let facade = "credentials"
    /// How their names begin.
    static let prefix = "\(facade)."

    private let records: RecordContainer
    private let users = Mutex<[String: Int]>([:])

    init(records: RecordContainer) {
        self.records = records
    }

    /// Runs `body` with the device class and the given one open. May ask the person, before `body`.
    func withOpen<R>(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority,
        _ body: () async throws -> R
    ) async throws -> R {
        try await records.open(.device, for: prompt, authorizedBy: NobodyPresent())
        guard protection.name != ProtectionClass.device.name else { return try await body() }
        users.withLock { $0[protection.name, default: 0] += 1 }
        defer { leave(protection) }
        try await records.open(protection, for: prompt, authorizedBy: presence)
        return try await body()
    }

    /// Runs `body`, which stores something in it, with the device class and a new class open. Asks the person before.
    func withNew<R>(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority,
        _ body: (PreparedClass) async throws -> R
    ) async throws -> R {
        try await records.open(.device, for: prompt, authorizedBy: NobodyPresent())
        users.withLock { $0[protection.name, default: 0] += 1 }
        defer { leave(protection) }
        return try await body(
            records.prepare(protection, revocably: .preferred, for: prompt, authorizedBy: presence))
    }

    private func leave(_ protection: ProtectionClass) {
        users.withLock { users in
            let rest = users[protection.name, default: 1] - 1
            users[protection.name] = rest == 0 ? nil : rest
            if rest == 0 { records.lock(prefix: protection.name) }
        }
    }
}
