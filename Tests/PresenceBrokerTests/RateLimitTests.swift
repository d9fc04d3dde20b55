import Testing

@testable import latchkey_presenced

/// How often, and how many at once.
struct RateLimitTests {
    private let start = ContinuousClock.now

    @Test func `thirty a minute are enough`() {
        var limit = RateLimit(perMinute: 30)
        let ordinary = (0..<30).map { _ in limit.admit(1000, at: start) }
        #expect(ordinary.allSatisfy { $0 })
        let further = [
            limit.admit(1000, at: start), limit.admit(1001, at: start),
            limit.admit(1000, at: start + .seconds(59)), limit.admit(1000, at: start + .seconds(60)),
        ]
        #expect(further == [false, true, false, true])
    }

    @Test func `so many at once, of one and of all`() {
        var occupancy = Occupancy<UInt32>(perKind: 2, total: 3)
        let first = [occupancy.enter(1), occupancy.enter(1), occupancy.enter(1)]
        #expect(first == [true, true, false])
        let others = [occupancy.enter(2), occupancy.enter(3)]
        #expect(others == [true, false], "all together are too many")
        occupancy.leave(1)
        occupancy.leave(9)
        let later = [occupancy.enter(3), occupancy.enter(3)]
        #expect(later == [true, false], "who was never there has made no room")
    }
}
