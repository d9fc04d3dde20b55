internal import Latchkey
internal import Synchronization

/// For how long a login on a token may serve without a new proof. There is one for each token of the process, because a
/// login is the process's, not a session's.
///
/// It is written on the token's thread, in the operation that logged in.
final class LoginKeeper: Sendable {
    private struct State {
        /// When the person last gave a proof that is kept.
        var provenAt: ContinuousClock.Instant?
        /// Counts what happened, so that a late end of an old login ends no new one.
        var generation = 0
    }

    private let state = Mutex(State())
    private static let keepers = Mutex<[String: LoginKeeper]>([:])

    static func of(_ token: Token) -> LoginKeeper {
        keepers.withLock { keepers in
            let keeper = keepers[token.uri.string] ?? LoginKeeper()
            keepers[token.uri.string] = keeper
            return keeper
        }
    }

    /// Whether a proof was given less than so many seconds ago and its login was kept.
    func isFresh(within seconds: Int) -> Bool {
        state.withLock { state in state.provenAt.map { .now - $0 < .seconds(seconds) } ?? false }
    }

    /// Notes that there is no login to rely on.
    func forget() {
        state.withLock { state in
            state.provenAt = nil
            state.generation += 1
        }
    }

    /// Notes a proof given now, and logs out when its time is over.
    func keep(for seconds: Int, on token: Token) {
        let generation = state.withLock { state in
            state.provenAt = .now
            state.generation += 1
            return state.generation
        }
        // Unstructured on purpose: the login outlives the call that made it, for as long as its policy says.
        Task {
            try? await Task.sleep(for: .seconds(seconds))
            // A token that is gone has taken its login along.
            try? await token.perform { [self] (session) throws(CryptokiError) in
                guard end(generation) else { return }
                try session.logout()
            }
        }
    }

    private func end(_ generation: Int) -> Bool {
        state.withLock { state in
            guard state.generation == generation else { return false }
            state.provenAt = nil
            return true
        }
    }
}
