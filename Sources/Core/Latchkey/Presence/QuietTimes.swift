/// The times in which an origin gets no prompt, because the user refused its last ones. The time
/// doubles with each refusal. A state machine over given times.
///
/// An origin must not be a name that the requester can choose: it would get a new one for each
/// prompt.
package struct QuietTimes<Origin: Hashable & Sendable>: Sendable {
    /// The time after the first refusal that counts.
    package static var shortest: Duration { .seconds(10) }
    package static var longest: Duration { .seconds(600) }

    private struct Refusals {
        var count = 0
        var time = Duration.zero
        var end = Duration.zero
    }

    private var origins: [Origin: Refusals] = [:]

    package init() {}

    /// The time until the origin may prompt again; nil if it may prompt now.
    package func remaining(for origin: Origin, at now: Duration) -> Duration? {
        origins[origin].flatMap { $0.end > now ? $0.end - now : nil }
    }

    /// The user has refused a prompt of the origin, or it ended without an answer.
    ///
    /// - Parameter tolerated: The number of refusals in a row after which there is no quiet time.
    package mutating func refuse(_ origin: Origin, tolerating tolerated: Int = 0, at now: Duration)
    {
        // Refusals are forgotten when the origin had the longest time without another one.
        origins = origins.filter { now - $0.value.end < Self.longest }
        var refusals = origins[origin] ?? Refusals()
        refusals.count += 1
        if refusals.count > tolerated {
            refusals.time =
                refusals.time == .zero
                ? Self.shortest : min(refusals.time + refusals.time, Self.longest)
        }
        refusals.end = now + refusals.time
        origins[origin] = refusals
    }

    /// The user has accepted a prompt of the origin.
    package mutating func accept(_ origin: Origin) { origins[origin] = nil }
}
