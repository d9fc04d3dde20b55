import LatchkeyTestSupport
import Testing

/// Concurrent first uses of a store.
@Suite(.timeLimit(.minutes(15)))
struct FirstUseTests {
    @Test func `eight processes create one store`() async throws {
        for round in 1...Repetitions.count(100, sample: 10) {
            let machine = try Machine(tcti: nil)
            let outcomes = try await withThrowingTaskGroup { group in
                for _ in 1...8 { group.addTask { try await machine.run("key", "list", "--json") } }
                var outcomes: [Outcome] = []
                for try await outcome in group { outcomes.append(outcome) }
                return outcomes
            }
            for outcome in outcomes {
                #expect(outcome.status == 0, "round \(round): \(outcome.errors)")
            }
        }
    }
}
