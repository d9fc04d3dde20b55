/// Lets one task at a time through, in the order in which they came. A cancelled task leaves the queue.
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
    /// - Throws: ``KeystoreError`` with code `cancelled` when the task is cancelled before its turn.
    func take(for operation: String) async throws(KeystoreError) {
        guard !Task.isCancelled else { throw .cancelled(operation) }
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
        guard hasTurn else { throw .cancelled(operation) }
    }

    /// Gives the turn to whoever waits longest.
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
