internal import Latchkey
internal import Synchronization

/// The classes for which somebody has to be present. Each is open only while it is used: one proof serves for one use,
/// and for others that overlap it.
final class Gates: Sendable {
    /// How the names of such classes begin.
    static let prefix = "credentials."

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

    private func leave(_ protection: ProtectionClass) {
        users.withLock { users in
            let rest = users[protection.name, default: 1] - 1
            users[protection.name] = rest
            if rest == 0 { records.lock(prefix: protection.name) }
        }
    }
}
