internal import Synchronization

/// The one ``Credential`` object for each id, as long as somebody else holds it.
final class CredentialRegistry: Sendable {
    private struct Entry {
        weak var credential: Credential?
    }

    private struct State {
        var entries: [String: Entry] = [:]
        /// Above how many entries those that nobody holds are swept out.
        var sweepAbove = 1000
    }

    private let state = Mutex(State())

    func credential(_ id: String, make: () -> Credential) -> Credential {
        state.withLock { state in
            if let standing = state.entries[id]?.credential { return standing }
            let made = make()
            state.entries[id] = Entry(credential: made)
            if state.entries.count > state.sweepAbove {
                state.entries = state.entries.filter { $0.value.credential != nil }
                state.sweepAbove = max(1000, 2 * state.entries.count)
            }
            return made
        }
    }

    func forget(_ id: String) {
        state.withLock { $0.entries[id] = nil }
    }
}
