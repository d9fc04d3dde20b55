package import Latchkey

extension SessionLockObserver {
    /// Calls `onLock` when the session locks or the machine sleeps, until the task is cancelled.
    /// Observes again after a failure.
    ///
    /// - Parameters:
    ///   - pause: The time before the next attempt to observe.
    ///   - onLock: Called with the path of the session that locked or ended; nil if the machine
    ///     sleeps or the connection to logind is lost.
    ///   - onFirstFailure: Called for the first failure only. Without systemd-logind, each attempt
    ///     fails.
    package func repeatedly(
        every pause: Duration = .seconds(60), onLock: @Sendable (String?) async -> Void,
        onFirstFailure: (KeystoreError) -> Void
    ) async {
        var isReported = false
        while !Task.isCancelled {
            do throws(KeystoreError) {
                try await follow(onLock)
            } catch {
                if !isReported, !Task.isCancelled { onFirstFailure(error) }
                isReported = true
            }
            try? await Task.sleep(for: pause)
        }
    }
}
