import Latchkey
import LatchkeySSH
import Synchronization

/// Lets one request at a time prompt, in the order of ``PromptTurns``. A cancelled request leaves
/// the queue.
final class PromptQueue: Sendable {
    enum Result<Value: Sendable>: Sendable {
        case finished(Value)
        /// There was no turn. The text is the reason, as a clause.
        case refused(String)
    }

    private struct State {
        var turns = PromptTurns()
        var waiting: [PromptTurns.ID: CheckedContinuation<Turn, Never>] = [:]
        /// Ends the running request.
        var end: (@Sendable () -> Void)?
        var lastID: PromptTurns.ID = 0
    }

    private enum Turn {
        case now
        /// After ``QuietTimes/pause``: an answer to the last prompt must not reach this one.
        case afterPause
        case refused(String)
    }

    private let state = Mutex(State())
    private let start = ContinuousClock.now

    /// Runs `body` when it is this request's turn.
    func run<Value: Sendable>(
        for origin: RequestOrigin, _ body: @escaping @Sendable () async -> (Value, PromptOutcome)
    ) async -> Result<Value> {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        switch await turn(of: id, from: origin) {
        case .refused(let reason): return .refused(reason)
        case .afterPause: try? await Task.sleep(for: QuietTimes<RequestOrigin>.pause)
        case .now: break
        }
        guard !Task.isCancelled else {
            finish(.undecided)
            return .refused(Self.gone)
        }
        let task = Task { await body() }
        let isEnded = state.withLock { state in
            state.end = { task.cancel() }
            return state.turns.isRunningEnded
        }
        if isEnded { task.cancel() }
        let (value, outcome) = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        finish(outcome)
        return .finished(value)
    }

    /// Ends all requests, also the running one.
    func endAll() {
        let (ended, end) = state.withLock { state in
            let ids = state.turns.withdrawAll()
            return (ids.compactMap { state.waiting.removeValue(forKey: $0) }, state.end)
        }
        for request in ended { request.resume(returning: .refused("the session was locked")) }
        end?()
    }

    private func turn(of id: PromptTurns.ID, from origin: RequestOrigin) async -> Turn {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (turn, end) = state.withLock { state -> (Turn?, (@Sendable () -> Void)?) in
                    if Task.isCancelled { return (.refused(Self.gone), nil) }
                    switch state.turns.request(id, from: origin, at: start.duration(to: .now)) {
                    case .begin: return (.now, nil)
                    case .refused(let reason): return (.refused(reason), nil)
                    case .wait(let endsRunning):
                        state.waiting[id] = continuation
                        return (nil, endsRunning ? state.end : nil)
                    }
                }
                if let turn { continuation.resume(returning: turn) }
                end?()
            }
        } onCancel: {
            let waiting = state.withLock { state in
                state.turns.withdraw(id) ? state.waiting.removeValue(forKey: id) : nil
            }
            waiting?.resume(returning: .refused(Self.gone))
        }
    }

    private static let gone = "the client closed the connection"

    private func finish(_ outcome: PromptOutcome) {
        typealias Resumption = (CheckedContinuation<Turn, Never>, Turn)
        let resumed = state.withLock { state -> [Resumption] in
            state.end = nil
            let handover = state.turns.finish(outcome, at: start.duration(to: .now))
            let refused = handover.refused.compactMap { id -> Resumption? in
                state.waiting.removeValue(forKey: id).map {
                    ($0, .refused("the user refused the last prompt of this origin"))
                }
            }
            let next = handover.next.flatMap { state.waiting.removeValue(forKey: $0) }
            return refused
                + (next.map { [($0, handover.needsPause ? .afterPause : .now)] }
                    ?? [])
        }
        for (continuation, turn) in resumed { continuation.resume(returning: turn) }
    }
}
