import Testing

@testable import LatchkeyPlatform

/// The limit on events in a period.
struct RateLimitTests {
    private let start = ContinuousClock.now

    @Test func `the thirty-first event in a minute is refused, for each key`() {
        var limit = RateLimit<UInt32>(30, in: .seconds(60))
        let ordinary = (0..<30).map { _ in limit.admit(1000, at: start) }
        #expect(ordinary.allSatisfy { $0 })
        let further = [
            limit.admit(1000, at: start), limit.admit(1001, at: start),
            limit.admit(1000, at: start + .seconds(59)),
            limit.admit(1000, at: start + .seconds(60)),
        ]
        #expect(further == [false, true, false, true])
    }

    @Test func `a key that is forgotten begins again`() {
        var limit = RateLimit<UInt32>(1, in: .seconds(60))
        var answers = [1, 2, 1].map { limit.admit($0, at: start) }
        limit.forget(1)
        answers += [1, 2].map { limit.admit($0, at: start) }
        #expect(answers == [true, true, false, true, false])
    }

    @Test func `an event that is withdrawn does not count, and its key is not stored`() {
        var limit = RateLimit<UInt32>(2, in: .seconds(60))
        var answers = [1, 1].map { limit.admit($0, at: start) }
        limit.withdraw(1)
        answers += [1, 1].map { limit.admit($0, at: start) }
        #expect(answers == [true, true, true, false])
        for key: UInt32 in [1, 1, 2] { limit.withdraw(key) }
        #expect(limit.keyCount == 0)
    }

    @Test func `keys without recent events are not stored`() {
        var limit = RateLimit<UInt32>(1, in: .seconds(10))
        for key in 0..<100_000 {
            _ = limit.admit(UInt32(key), at: start + .milliseconds(key))
        }
        #expect(limit.keyCount <= 20_001, "the keys of the last ten seconds, twice")
        let isRefused = !limit.admit(99_999, at: start + .seconds(100))
        #expect(isRefused, "a recent key is stored")
    }
}
