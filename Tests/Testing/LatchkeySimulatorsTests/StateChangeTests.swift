import LatchkeyTestSupport
import Testing

/// Tests of the points at which the suites kill programs.
struct StateChangeTests {
    @Test func `the samples have the minimum number of points`() {
        #expect(StateChange.allCases.map(\.share).reduce(0, +) >= StateChange.minimum)
    }
}
