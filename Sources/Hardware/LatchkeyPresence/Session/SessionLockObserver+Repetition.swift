package import Latchkey

extension SessionLockObserver {
    /// Calls `onLock` when the session locks or the machine sleeps, until the task is cancelled.
    /// Observes again after a failure.
    ///
    /// - Parameters:
    ///   - pause: The time before the next attempt to observe.
    ///   - onFirstFailure: Called for the first failure only. Without systemd-logind, each attempt
    ///     fails.
    package func repeatedly(
        every pause: Duration = .seconds(60), onLock: @Sendable () async -> Void,
        onFirstFailure: (KeystoreError) -> Void
    ) async {
        var isReported = false
        while !Task.isCancelled {
            do throws(KeystoreError) {
                try await run(locking: [], onLock: onLock)
            } catch {
                if !isReported, !Task.isCancelled { onFirstFailure(error) }
                isReported = true
            }
            try? await Task.sleep(for: pause)
        }
    }
}
