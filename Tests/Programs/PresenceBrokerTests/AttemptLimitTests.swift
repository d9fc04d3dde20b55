import Testing

@testable import latchkey_presenced

/// The limit on fingers that do not match.
struct AttemptLimitTests {
    private let start = ContinuousClock.now

    @Test func `five fingers that do not match lock for a minute, the next five for two`() {
        var limit = AttemptLimit()
        for _ in 0..<4 { limit.recordFailure(1000, at: start) }
        #expect(limit.lock(of: 1000, at: start) == nil)
        limit.recordFailure(1000, at: start)
        #expect(limit.lock(of: 1000, at: start) == .seconds(60))
        #expect(limit.lock(of: 1001, at: start) == nil, "other users are not locked")
        let later = start + .seconds(61)
        #expect(limit.lock(of: 1000, at: later) == nil)
        for _ in 0..<5 { limit.recordFailure(1000, at: later) }
        #expect(limit.lock(of: 1000, at: later) == .seconds(120))
        for _ in 0..<500 { limit.recordFailure(1000, at: later) }
        #expect(limit.lock(of: 1000, at: later) == .seconds(3600))
    }

    @Test func `a match resets the count`() {
        var limit = AttemptLimit()
        for _ in 0..<4 { limit.recordFailure(1000, at: start) }
        limit.recordMatch(1000)
        limit.recordFailure(1000, at: start)
        #expect(limit.lock(of: 1000, at: start) == nil)
    }
}
