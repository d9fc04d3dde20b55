import LatchkeyTesting
import Testing

/// The points at which the suites kill programs.
struct StateChangeTests {
    @Test func `together they are as many as a run of the tests must visit`() {
        #expect(StateChange.allCases.map(\.share).reduce(0, +) >= StateChange.minimum)
    }
}
