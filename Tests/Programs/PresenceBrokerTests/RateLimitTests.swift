import Testing

@testable import latchkey_presenced

/// Limits per minute, and on concurrent calls.
struct RateLimitTests {
    private let start = ContinuousClock.now

    @Test func `the thirty-first call in a minute is refused`() {
        var limit = RateLimit(perMinute: 30)
        let ordinary = (0..<30).map { _ in limit.admit(1000, at: start) }
        #expect(ordinary.allSatisfy { $0 })
        let further = [
            limit.admit(1000, at: start), limit.admit(1001, at: start),
            limit.admit(1000, at: start + .seconds(59)),
            limit.admit(1000, at: start + .seconds(60)),
        ]
        #expect(further == [false, true, false, true])
    }

    @Test func `concurrent calls are limited for each user and in total`() {
        var occupancy = Occupancy<UInt32>(perKind: 2, total: 3)
        let first = [occupancy.enter(1), occupancy.enter(1), occupancy.enter(1)]
        #expect(first == [true, true, false])
        let others = [occupancy.enter(2), occupancy.enter(3)]
        #expect(others == [true, false], "the total limit")
        occupancy.leave(1)
        occupancy.leave(9)
        let later = [occupancy.enter(3), occupancy.enter(3)]
        #expect(later == [true, false], "leaving without entering changes nothing")
    }
}
