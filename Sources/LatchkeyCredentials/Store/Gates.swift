internal import Latchkey
internal import Synchronization

/// The classes for which somebody has to be present. Each is open only while it is used, and for as long after that as
/// its policy says that one proof serves.
final class Gates: Sendable {
    /// How the names of such classes begin.
    static let prefix = "credentials."

    private struct Use {
        var count = 0
        /// Counts the openings, so that an old deadline closes nothing new.
        var openings = 0
    }

    private let records: RecordContainer
    private let uses = Mutex<[String: Use]>([:])

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
        uses.withLock { $0[protection.name, default: Use()].count += 1 }
        defer { leave(protection) }
        try await records.open(protection, for: prompt, authorizedBy: presence)
        return try await body()
    }

    private func leave(_ protection: ProtectionClass) {
        let serves = protection.policy.reuseSeconds
        let opening = uses.withLock { uses -> Int in
            var use = uses[protection.name, default: Use()]
            use.count -= 1
            use.openings += 1
            uses[protection.name] = use
            if use.count == 0, serves == 0 { records.lock(prefix: protection.name) }
            return use.openings
        }
        guard serves > 0 else { return }
        Task { [weak self] in
            try await Task.sleep(for: .seconds(serves))
            self?.close(protection, ifStill: opening)
        }
    }

    private func close(_ protection: ProtectionClass, ifStill opening: Int) {
        uses.withLock { uses in
            guard let use = uses[protection.name], use.count == 0, use.openings == opening else { return }
            records.lock(prefix: protection.name)
        }
    }
}
