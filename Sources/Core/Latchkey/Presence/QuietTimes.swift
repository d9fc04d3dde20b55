/// The times in which an origin gets no prompt, because the user refused its last ones. The time
/// doubles with each refusal. A state machine over given times.
///
/// An origin must not be a name that the requester can choose: it would get a new one for each
/// prompt.
package struct QuietTimes<Origin: Hashable & Sendable>: Sendable {
    /// The time after the first refusal that counts.
    package static var shortest: Duration { .seconds(10) }
    package static var longest: Duration { .seconds(600) }
    /// The time between the end of a prompt and the next one. The user may be about to click in the
    /// window that has closed, or the finger may still be on the reader.
    package static var pause: Duration { .seconds(1) }
    /// The maximum number of origins that are counted.
    package static var maximumOrigins: Int { 256 }

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
    /// - Parameters:
    ///   - tolerated: The number of refusals in a row after which there is no quiet time.
    ///   - longest: The time to which this refusal can raise the quiet time.
    package mutating func refuse(
        _ origin: Origin, tolerating tolerated: Int = 0, upTo longest: Duration = Self.longest,
        at now: Duration
    ) {
        // Refusals are forgotten when the origin had the longest time without another one.
        origins = origins.filter { now - $0.value.end < Self.longest }
        var refusals = origins[origin] ?? Refusals()
        refusals.count += 1
        if refusals.count > tolerated {
            let next = refusals.time == .zero ? Self.shortest : refusals.time + refusals.time
            refusals.time = max(refusals.time, min(next, longest))
        }
        refusals.end = now + refusals.time
        origins[origin] = refusals
        // More origins than a user can refuse, so without a prompt. The latest end stays.
        if origins.count > Self.maximumOrigins,
            let first = origins.min(by: { $0.value.end < $1.value.end })
        {
            origins[first.key] = nil
        }
    }

    /// The user has accepted a prompt of the origin.
    package mutating func accept(_ origin: Origin) { origins[origin] = nil }
}
