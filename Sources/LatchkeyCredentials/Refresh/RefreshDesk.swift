internal import Synchronization

/// The refreshes that are under way, one for each credential, which everybody shares.
final class RefreshDesk: Sendable {
    private struct State {
        var running: [String: Task<Token, any Error>] = [:]
        var unsaved: [String: UnsavedAnswer] = [:]
    }

    private let state = Mutex(State())

    /// The result of the refresh of `id` that is under way, or of `refresh`, which nobody can cancel: what the server
    /// has done already must be written down.
    func join(_ id: String, _ refresh: @escaping @Sendable () async throws -> Token) async throws -> Token {
        let task = state.withLock { state in
            if let running = state.running[id] { return running }
            let task = Task {
                defer { self.state.withLock { $0.running[id] = nil } }
                return try await refresh()
            }
            state.running[id] = task
            return task
        }
        return try await task.value
    }

    /// What the server gave and the store did not take yet: without it, the credential is lost.
    func unsaved(_ id: String) -> UnsavedAnswer? {
        state.withLock { $0.unsaved[id] }
    }

    func setUnsaved(_ answer: UnsavedAnswer?, _ id: String) {
        state.withLock { $0.unsaved[id] = answer }
    }
}
