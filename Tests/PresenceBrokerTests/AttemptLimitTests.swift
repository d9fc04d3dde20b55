import Testing

@testable import latchkey_presenced

/// How often somebody may try.
struct AttemptLimitTests {
    private let start = ContinuousClock.now

    @Test func `five other fingers in a row lock for a minute, the next five for two`() {
        var limit = AttemptLimit()
        for _ in 0..<4 { limit.recordFailure(1000, at: start) }
        #expect(limit.lock(of: 1000, at: start) == nil)
        limit.recordFailure(1000, at: start)
        #expect(limit.lock(of: 1000, at: start) == .seconds(60))
        #expect(limit.lock(of: 1001, at: start) == nil, "nobody else is locked")
        let later = start + .seconds(61)
        #expect(limit.lock(of: 1000, at: later) == nil)
        for _ in 0..<5 { limit.recordFailure(1000, at: later) }
        #expect(limit.lock(of: 1000, at: later) == .seconds(120))
        for _ in 0..<500 { limit.recordFailure(1000, at: later) }
        #expect(limit.lock(of: 1000, at: later) == .seconds(3600))
    }

    @Test func `a match ends the row`() {
        var limit = AttemptLimit()
        for _ in 0..<4 { limit.recordFailure(1000, at: start) }
        limit.recordMatch(1000)
        limit.recordFailure(1000, at: start)
        #expect(limit.lock(of: 1000, at: start) == nil)
    }
}
