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
        var endings = 0
    }

    private let state = Mutex(State())
    /// A login is one module's: what is logged in within a process of its own is not so here.
    private struct Place: Hashable {
        /// Modules are never let go.
        let module: ObjectIdentifier
        let uri: String
    }

    private static let keepers = Mutex<[Place: LoginKeeper]>([:])

    static func of(_ module: Module, _ uri: TokenURI) -> LoginKeeper {
        keepers.withLock { keepers in
            let place = Place(module: ObjectIdentifier(module), uri: uri.string)
            let keeper = keepers[place] ?? LoginKeeper()
            keepers[place] = keeper
            return keeper
        }
    }

    /// Whether a proof was given less than so many seconds ago and its login was kept.
    func isFresh(within seconds: Int) -> Bool {
        state.withLock { state in state.provenAt.map { .now - $0 < .seconds(seconds) } ?? false }
    }

    /// Whether a policy keeps the login after the operation that made it.
    var isKept: Bool { state.withLock { $0.provenAt != nil } }

    /// Notes that there is no login to rely on.
    func forget() {
        state.withLock { state in
            state.provenAt = nil
            state.generation += 1
        }
    }

    /// How often kept proofs were ended by somebody who locked.
    var endings: Int { state.withLock { $0.endings } }

    /// Notes a proof given now, and logs out when its time is over.
    ///
    /// - Returns: Whether the login may stay.
    func keep(for term: LoginTerm, on token: Token) -> Bool {
        let generation = state.withLock { state -> Int? in
            guard term.seconds > 0, term.endings == state.endings else { return nil }
            state.provenAt = .now
            state.generation += 1
            return state.generation
        }
        guard let generation else { return false }
        logOut(of: generation, on: token, after: .seconds(term.seconds))
        return true
    }

    /// Ends the time of the kept proof now, and that of proofs that are being given. Returns before the token has logged
    /// out; who uses a key meanwhile is asked.
    func end(on token: Token) {
        let generation = state.withLock { state -> Int? in
            state.endings += 1
            guard state.provenAt != nil else { return nil }
            state.provenAt = nil
            state.generation += 1
            return state.generation
        }
        if let generation { logOut(of: generation, on: token, after: .zero) }
    }

    /// Unstructured on purpose: the login outlives the call that made it, for as long as its policy says.
    private func logOut(of generation: Int, on token: Token, after time: Duration) {
        Task {
            try? await Task.sleep(for: time)
            // Before the token is used: a login that is not kept is ended after this and each later operation, even if
            // no session can be opened. The connection repeats a failed reset of the card.
            guard end(generation) else { return }
            try? await token.perform { [self] (session) throws(CryptokiError) in
                guard end(generation) else { return }
                try session.logout()
            }
        }
    }

    /// Ends the time of a proof. Can be repeated.
    ///
    /// - Returns: Whether no other login followed it.
    private func end(_ generation: Int) -> Bool {
        state.withLock { state in
            guard state.generation == generation else { return false }
            state.provenAt = nil
            return true
        }
    }
}
