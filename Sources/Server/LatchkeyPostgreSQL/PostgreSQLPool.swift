internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyRelyingParty
internal import Synchronization

/// Lends connections, at most a given number at a time. Those who wait get one in the order of
/// their arrival.
final class PostgreSQLPool: Sendable {
    /// How long to wait before another attempt to connect.
    private static let pause: Duration = .milliseconds(100)

    private struct State {
        var idle: [PostgreSQLConnection] = []
        /// Connections in use, and permissions to connect.
        var lent = 0
        var waiting:
            [(id: Int, continuation: CheckedContinuation<PostgreSQLConnection?, any Error>)] = []
        var lastID = 0
    }

    private let state = Mutex(State())
    private let parameters: ConnectionParameters
    private let maximum: Int
    private let wait: Duration

    init(_ parameters: ConnectionParameters, _ configuration: PostgreSQLConfiguration) {
        self.parameters = parameters
        maximum = max(1, configuration.maximumConnections)
        wait = configuration.connectionWait
    }

    /// Lends a connection. While the database cannot be reached, connects again until the wait is
    /// over.
    func take() async throws -> PostgreSQLConnection {
        let deadline = ContinuousClock.now + wait
        if let idle = try await place(until: deadline) { return idle }
        var cause: SQLFailure?
        while true {
            do {
                return try await PostgreSQLConnection.open(parameters, until: deadline)
            } catch let error as SQLFailure where error.code == .unavailable {
                let now = ContinuousClock.now
                guard now + Self.pause < deadline else {
                    free()
                    // An attempt that the deadline ended explains less than the one before it.
                    throw now < deadline ? error : cause ?? error
                }
                cause = error
                do {
                    try await Task.sleep(for: Self.pause)
                } catch {
                    free()
                    throw error
                }
                // The server may accept no further connection, but another transaction has ended.
                if let idle = state.withLock({ $0.idle.popLast() }) { return idle }
            } catch {
                free()
                throw error
            }
        }
    }

    func give(back connection: PostgreSQLConnection, isUsable: Bool) {
        guard isUsable else { return free() }
        let next = state.withLock {
            state -> CheckedContinuation<PostgreSQLConnection?, any Error>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst().continuation }
            state.lent -= 1
            state.idle.append(connection)
            return nil
        }
        next?.resume(returning: connection)
    }

    /// Closes the idle connections: the database that closed one has probably closed all.
    func discardIdle() { state.withLock { $0.idle = [] } }

    /// A connection that is no longer used makes room for another one.
    private func free() {
        let next = state.withLock {
            state -> CheckedContinuation<PostgreSQLConnection?, any Error>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst().continuation }
            state.lent -= 1
            return nil
        }
        next?.resume(returning: nil)
    }

    /// Waits for an idle connection, or for the permission to open one: nil.
    private func place(until deadline: ContinuousClock.Instant) async throws
        -> PostgreSQLConnection?
    {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        let timer = Task {
            try await Task.sleep(until: deadline, clock: .continuous)
            self.end(
                id,
                SQLFailure(
                    .poolExhausted, "all \(self.maximum) connections to the database are in use"))
        }
        defer { timer.cancel() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let found = state.withLock { state -> PostgreSQLConnection?? in
                    if let idle = state.idle.popLast() {
                        state.lent += 1
                        return idle
                    }
                    if state.lent < maximum {
                        state.lent += 1
                        return .some(nil)
                    }
                    state.waiting.append((id, continuation))
                    return nil
                }
                if let found { continuation.resume(returning: found) }
                if Task.isCancelled { end(id, CancellationError()) }
            }
        } onCancel: {
            end(id, CancellationError())
        }
    }

    private func end(_ id: Int, _ error: any Error) {
        let continuation = state.withLock { state in
            state.waiting.firstIndex { $0.id == id }.map {
                state.waiting.remove(at: $0).continuation
            }
        }
        continuation?.resume(throwing: error)
    }
}
