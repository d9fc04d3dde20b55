internal import Synchronization

/// Tracks for how long the login on a token may be reused without a new proof. There is one for
/// each token of the process, because PKCS#11 logs in the process, not a session.
///
/// A new proof is recorded on the token's thread, in the operation that logged in.
final class LoginReuse: Sendable {
    private struct State {
        /// When the user last gave a proof that may be reused.
        var provenAt: ContinuousClock.Instant?
        /// Counts logins and calls of ``forget()``, so that the late end of an old login does not
        /// end a new one.
        var generation = 0
        var endings = 0
        /// Logs out of the kept login.
        var logout: Logout?

        /// - Returns: The new generation.
        mutating func replace(_ provenAt: ContinuousClock.Instant?) -> Int {
            self.provenAt = provenAt
            logout?.wait.cancel()
            generation += 1
            return generation
        }
    }

    private struct Logout {
        /// Ends with the window of reuse. Cancel it to log out at once.
        let wait: Task<Void, Never>
        /// Logs out after ``wait``, unless another login followed.
        let task: Task<Void, Never>
    }

    private let state = Mutex(State())
    /// Each module has its own logins: a login in an isolated module is not a login in this
    /// process.
    private struct Key: Hashable {
        /// Modules are never deallocated.
        let module: ObjectIdentifier
        /// The module's ``Module/path``.
        let path: String
        /// Names only this token.
        let uri: TokenURI
    }

    private static let all = Mutex<[Key: LoginReuse]>([:])

    static func of(_ module: Module, _ uri: TokenURI) -> LoginReuse {
        all.withLock { all in
            let key = Key(module: ObjectIdentifier(module), path: module.path, uri: uri)
            let login = all[key] ?? LoginReuse()
            all[key] = login
            return login
        }
    }

    /// Whether a proof was given less than `seconds` ago and its login may be reused.
    func isFresh(within seconds: Int) -> Bool {
        state.withLock { state in state.provenAt.map { .now - $0 < .seconds(seconds) } ?? false }
    }

    /// Whether a policy keeps the login after the operation that logged in.
    var isKept: Bool { state.withLock { $0.provenAt != nil } }

    /// Records that there is no login to reuse.
    func forget() { state.withLock { _ = $0.replace(nil) } }

    /// How often ``end()`` was called.
    var endings: Int { state.withLock { $0.endings } }

    /// Records a proof given now, and logs out when its window is over.
    ///
    /// - Returns: Whether the login may stay.
    func keep(for window: ReuseWindow, on token: Token) -> Bool {
        state.withLock { state in
            guard window.seconds > 0, window.endings == state.endings else { return false }
            let generation = state.replace(.now)
            state.logout = logOut(of: generation, on: token, after: .seconds(window.seconds))
            return true
        }
    }

    /// Ends the reuse of the current proof and of proofs that operations in progress were given.
    /// Returns before the token has logged out; a use of a key until then prompts.
    func end() {
        state.withLock { state in
            state.endings += 1
            state.provenAt = nil
            state.logout?.wait.cancel()
        }
    }

    /// Ends the reuse of the logins on all tokens that a URI may mean, as ``end()`` does.
    ///
    /// - Parameter uri: nil for all tokens of the process.
    static func endAll(on uri: TokenURI? = nil) {
        for (key, login) in all.withLock(\.self) {
            if let uri, !uri.mayMean(key.uri, in: key.path) { continue }
            login.end()
        }
    }

    /// Ends all logins on the tokens of a module, and waits until the tokens have logged out. Tests
    /// call it before they remove their tokens.
    ///
    /// - Parameter path: The module's ``Module/path``.
    static func endAll(ofModule path: String) async {
        for login in all.withLock({ all in all.filter { $0.key.path == path }.values }) {
            login.end()
            await login.state.withLock(\.logout)?.task.value
        }
    }

    /// Logs out later. The tasks are unstructured: the login outlives the call that logged in.
    private func logOut(of generation: Int, on token: Token, after time: Duration) -> Logout {
        let wait = Task { _ = try? await Task.sleep(for: time) }
        let task = Task {
            await wait.value
            // Before the token is used: the connection ends a login that is not kept after this and
            // each later operation, even if no session can be opened, and repeats a failed reset of
            // the card.
            guard end(generation) else { return }
            try? await token.withSession { [self] (session) throws(CryptokiError) in
                guard end(generation) else { return }
                try session.logout()
            }
        }
        return Logout(wait: wait, task: task)
    }

    /// Ends the reuse of a proof. Can be repeated.
    ///
    /// - Returns: Whether no other login followed.
    private func end(_ generation: Int) -> Bool {
        state.withLock { state in
            guard state.generation == generation else { return false }
            state.provenAt = nil
            return true
        }
    }
}

/// The time for which a login may be reused after the operation that logged in.
struct ReuseWindow: Hashable, Sendable {
    /// 0 ends the login with the operation.
    let seconds: Int
    /// ``LoginReuse/endings`` when the operation began. The login of an operation is not kept if
    /// another login ended since.
    let endings: Int
}
