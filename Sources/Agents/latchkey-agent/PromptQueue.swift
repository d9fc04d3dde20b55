import Synchronization

/// Lets one request at a time prompt. Requests wait in order; a cancelled request leaves the queue.
final class PromptQueue: Sendable {
    private struct State {
        var isBusy = false
        var waiting: [(id: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
        var nextID: UInt64 = 0
    }

    /// The maximum number of waiting requests.
    static let maximumWaiting = 32

    private let state = Mutex(State())

    /// Runs `body` when it is this request's turn.
    ///
    /// - Returns: nil if the task was cancelled before, or too many requests wait.
    func run<Value: Sendable>(_ body: () async -> Value) async -> Value? {
        guard await enter() else { return nil }
        defer { leave() }
        guard !Task.isCancelled else { return nil }
        return await body()
    }

    /// Ends all waiting requests without a turn.
    func cancelWaiting() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        for request in waiting { request.continuation.resume(returning: false) }
    }

    private func enter() async -> Bool {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer: Bool? = state.withLock { state in
                    if Task.isCancelled { return false }
                    guard state.isBusy else {
                        state.isBusy = true
                        return true
                    }
                    guard state.waiting.count < Self.maximumWaiting else { return false }
                    state.waiting.append((id, continuation))
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            let waiting = state.withLock { state in
                state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0) }
            }
            waiting?.continuation.resume(returning: false)
        }
    }

    private func leave() {
        let next = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard !state.waiting.isEmpty else {
                state.isBusy = false
                return nil
            }
            return state.waiting.removeFirst().continuation
        }
        next?.resume(returning: true)
    }
}
