import Synchronization

/// A clock that a sleep advances at once.
final class LeapingClock: Clock {
    typealias Duration = Swift.Duration

    struct Instant: InstantProtocol {
        let offset: Swift.Duration

        func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Swift.Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let state = Mutex<(now: Instant, sleeps: [Duration])>((Instant(offset: .zero), []))
    private let cancelled: Int

    /// - Parameter cancelled: The number of the sleep, from 1, in which the task is cancelled.
    init(cancelledInSleep cancelled: Int = .max) { self.cancelled = cancelled }

    var now: Instant { state.withLock { $0.now } }
    let minimumResolution: Duration = .zero

    /// The lengths of the sleeps in seconds.
    var sleeps: [Int64] { state.withLock { $0.sleeps.map(\.components.seconds) } }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let count = state.withLock { state in
            state.sleeps.append(state.now.duration(to: deadline))
            state.now = deadline
            return state.sleeps.count
        }
        guard count < cancelled else { throw CancellationError() }
    }
}
