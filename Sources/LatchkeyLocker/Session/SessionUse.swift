internal import FoundationEssentials

/// A moment at which a session was used, by two clocks: one that may be set, and one that also goes on while the machine
/// sleeps.
struct SessionUse: Sendable {
    private let date: Date
    private let instant: ContinuousClock.Instant

    init(at date: Date) {
        self.date = date
        instant = .now
    }

    /// How long ago that was; the longer time where the clocks differ, so that nobody makes a session last by setting one.
    func age(at now: Date) -> Duration {
        max(.seconds(now.timeIntervalSince(date)), instant.duration(to: .now))
    }
}
