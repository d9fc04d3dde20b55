internal import Synchronization

/// What a program has of one container's classes in its memory: sessions, proofs, and whose turn it is.
///
/// A lock ends all of it at once. That includes sessions which are only being opened, and classes which are made and not
/// stored yet: whatever was begun before the lock came stays shut after it.
final class OpenClasses: Sendable {
    private struct Coming {
        weak var session: ClassSession?
    }

    private struct Turns {
        let queue = TaskQueue()
        var users = 0
    }

    private struct State {
        var open: [String: ClassSession] = [:]
        /// Begun and not admitted yet, as long as somebody holds them.
        var coming: [Coming] = []
        var proven: [String: ProvenClass] = [:]
        /// One line of tasks for each class, so that nobody is prompted twice for one class, and nobody waits for a
        /// person who is asked about another.
        var turns: [String: Turns] = [:]
    }

    private let state = Mutex(State())

    // MARK: Sessions

    /// The session of the class, if it is open.
    func session(_ name: String) -> ClassSession? {
        state.withLock { $0.open[name] }
    }

    /// A session for a key that is yet to come.
    func begin(_ name: String) -> ClassSession {
        let session = ClassSession(name: name)
        state.withLock { state in
            state.coming.removeAll { $0.session == nil }
            state.coming.append(Coming(session: session))
        }
        return session
    }

    /// Lets everybody have the session, unless a lock has closed it.
    ///
    /// - Returns: Whether it is open.
    @discardableResult
    func admit(_ session: ClassSession) -> Bool {
        state.withLock { state in
            state.coming.removeAll { $0.session == nil || $0.session === session }
            guard session.isOpen else { return false }
            state.open[session.name] = session
            return true
        }
    }

    /// Closes the sessions of the classes whose names begin with `prefix`, also those that are yet to come.
    ///
    /// - Parameter spared: What stays as it is.
    func lock(prefix: String, sparing spared: [ClassSession] = []) {
        state.withLock { state in
            let all = state.coming.compactMap(\.session) + state.open.values
            for session in all where session.name.hasPrefix(prefix) && !spared.contains(where: { $0 === session }) {
                session.close()
            }
            state.coming.removeAll { $0.session?.isClosed ?? true }
            state.open = state.open.filter { !$0.value.isClosed }
            state.proven = state.proven.filter { !$0.key.hasPrefix(prefix) }
        }
    }

    // MARK: Proofs

    /// Keeps the session's key for the next opening, unless a lock has closed the session.
    func keep(_ session: ClassSession) {
        state.withLock { state in
            state.coming.removeAll { $0.session == nil || $0.session === session }
            if let key = session.opened { state.proven[session.name] = ProvenClass(key) }
        }
    }

    /// The key that a proof left, once.
    func takeProven(_ name: String) -> ClassKey? {
        state.withLock { $0.proven.removeValue(forKey: name)?.key }
    }

    // MARK: Turns

    /// Runs `body` while nobody else runs one for this class.
    func inTurn<R>(
        _ name: String, _ body: () async throws(KeystoreError) -> R
    ) async throws(KeystoreError) -> R {
        let queue = state.withLock { state in
            var turns = state.turns[name] ?? Turns()
            turns.users += 1
            state.turns[name] = turns
            return turns.queue
        }
        defer { leave(name) }
        try await queue.take(for: "open the class ‘\(name)’")
        do throws(KeystoreError) {
            let result = try await body()
            await queue.pass()
            return result
        } catch {
            await queue.pass()
            throw error
        }
    }

    private func leave(_ name: String) {
        state.withLock { state in
            state.turns[name]?.users -= 1
            if state.turns[name]?.users == 0 { state.turns[name] = nil }
        }
    }
}
