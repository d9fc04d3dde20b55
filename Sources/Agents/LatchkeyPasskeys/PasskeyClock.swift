/// The time, as durations since any fixed moment. Tests inject their own.
package struct PasskeyClock: Sendable {
    package let now: @Sendable () -> Duration
    /// Waits until that time. Throws if the task is cancelled.
    package let sleep: @Sendable (_ until: Duration) async throws -> Void

    package init(
        now: @escaping @Sendable () -> Duration,
        sleep: @escaping @Sendable (_ until: Duration) async throws -> Void
    ) {
        self.now = now
        self.sleep = sleep
    }

    /// The system's clock.
    package static let continuous: PasskeyClock = {
        let start = ContinuousClock.now
        return PasskeyClock(
            now: { ContinuousClock.now - start },
            sleep: { try await Task.sleep(until: start + $0, clock: .continuous) })
    }()
}
