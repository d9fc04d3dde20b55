internal import Synchronization

/// A program's cache of one container's protection classes: sessions, proofs, and the queue of each
/// class.
///
/// A lock ends all of it at once, including sessions that are being opened and classes that are not
/// stored yet: an operation that began before the lock leaves nothing open after it.
final class RecordKeyCache: Sendable {
    private struct WeakSession {
        weak var session: ClassSession?
    }

    private struct ClassQueue {
        let tasks = TaskQueue()
        var users = 0
    }

    private struct State {
        var open: [String: ClassSession] = [:]
        /// Sessions that have begun and are not admitted yet; weak references.
        var pending: [WeakSession] = []
        var verified: [String: VerifiedKey] = [:]
        /// One queue of tasks for each class. It prevents two prompts for one class, and lets one
        /// class continue while the user is prompted for another.
        var queues: [String: ClassQueue] = [:]
    }

    private let state = Mutex(State())

    // MARK: Sessions

    /// The session of the class, if it is open.
    func session(_ name: String) -> ClassSession? {
        state.withLock { $0.open[name] }
    }

    /// Creates a session for a key that is not opened yet.
    func begin(_ name: String) -> ClassSession {
        let session = ClassSession(name: name)
        state.withLock { state in
            state.pending.removeAll { $0.session == nil }
            state.pending.append(WeakSession(session: session))
        }
        return session
    }

    /// Shares the session, unless a lock has closed it.
    ///
    /// - Returns: Whether it is open.
    @discardableResult
    func admit(_ session: ClassSession) -> Bool {
        state.withLock { state in
            state.pending.removeAll { $0.session == nil || $0.session === session }
            guard session.isOpen else { return false }
            state.open[session.name] = session
            return true
        }
    }

    /// Closes the sessions of the classes whose names begin with `prefix`, including those that are
    /// being opened.
    ///
    /// - Parameter spared: Sessions that stay open.
    func lock(prefix: String, sparing spared: [ClassSession] = []) {
        state.withLock { state in
            let all = state.pending.compactMap(\.session) + state.open.values
            for session in all
            where session.name.hasPrefix(prefix) && !spared.contains(where: { $0 === session }) {
                session.close()
            }
            state.pending.removeAll { $0.session?.isClosed ?? true }
            state.open = state.open.filter { !$0.value.isClosed }
            state.verified = state.verified.filter { !$0.key.hasPrefix(prefix) }
        }
    }

    // MARK: Proofs

    /// Keeps the session's key for the next opening, unless a lock has closed the session.
    func keep(_ session: ClassSession) {
        state.withLock { state in
            state.pending.removeAll { $0.session == nil || $0.session === session }
            if let key = session.opened { state.verified[session.name] = VerifiedKey(key) }
        }
    }

    /// Returns the key that a proof left, once.
    func takeVerifiedKey(_ name: String) -> RecordKey? {
        state.withLock { $0.verified.removeValue(forKey: name)?.key }
    }

    // MARK: One task at a time

    /// Runs `body` while no other task runs one for this class.
    func serially<R>(
        _ name: String, _ body: () async throws(CommonError) -> R
    ) async throws(CommonError) -> R {
        let queue = state.withLock { state in
            var queue = state.queues[name] ?? ClassQueue()
            queue.users += 1
            state.queues[name] = queue
            return queue.tasks
        }
        defer { leave(name) }
        try await queue.take()
        do throws(CommonError) {
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
            state.queues[name]?.users -= 1
            if state.queues[name]?.users == 0 { state.queues[name] = nil }
        }
    }
}

/// A record key that can be used once more after a user verification, for a short time.
struct VerifiedKey {
    /// How long a proof is valid.
    static let lifetime: Duration = .seconds(60)

    private let opened: RecordKey
    private let deadline = ContinuousClock.now + Self.lifetime

    init(_ key: RecordKey) { opened = key }

    /// The key, or nil if the proof is too old.
    var key: RecordKey? { ContinuousClock.now < deadline ? opened : nil }
}

/// A protection class that is open, or is being opened. All users of the open class share it.
/// Closing it ends it for all of them for good: opening the class again creates another session.
package final class ClassSession: Sendable {
    private enum Stage {
        case opening
        case open(RecordKey)
        case closed
    }

    package let name: String
    private let stage = Mutex(Stage.opening)

    init(name: String) {
        self.name = name
    }

    /// Whether the class's records can be read in this session.
    package var isOpen: Bool { opened != nil }

    /// The key, while the session is open.
    var opened: RecordKey? {
        stage.withLock { stage in
            guard case .open(let key) = stage else { return nil }
            return key
        }
    }

    /// Whether the session has ended for good.
    var isClosed: Bool {
        stage.withLock { stage in
            guard case .closed = stage else { return false }
            return true
        }
    }

    /// Opens the session. A session that was closed before its key came stays closed.
    func open(with key: RecordKey) {
        stage.withLock { stage in
            if case .opening = stage { stage = .open(key) }
        }
    }

    /// Discards the key.
    func close() {
        stage.withLock { $0 = .closed }
    }
}

/// Lets one task through at a time, in the order of arrival. A cancelled task leaves the queue.
actor TaskQueue {
    private struct Waiter {
        let id: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private var isTaken = false
    private var waiters: [Waiter] = []
    private var nextID = 0

    /// Waits for the turn. Each successful call is followed by one ``pass()``.
    ///
    /// - Throws: ``CommonError`` with code `cancelled` if the task is cancelled before its turn.
    func take() async throws(CommonError) {
        guard !Task.isCancelled else { throw .cancelled() }
        guard isTaken else {
            isTaken = true
            return
        }
        nextID += 1
        let id = nextID
        let hasTurn = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled {
                    continuation.resume(returning: false)
                } else {
                    waiters.append(Waiter(id: id, continuation: continuation))
                }
            }
        } onCancel: {
            Task { await self.leave(id) }
        }
        guard hasTurn else { throw .cancelled() }
    }

    /// Gives the turn to the task that has waited longest.
    func pass() {
        guard !waiters.isEmpty else {
            isTaken = false
            return
        }
        waiters.removeFirst().continuation.resume(returning: true)
    }

    private func leave(_ id: Int) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).continuation.resume(returning: false)
    }
}
