import Testing

/// A store that several processes use for the first time at once.
@Suite(.timeLimit(.minutes(10)))
struct FirstUseTests {
    @Test func `eight processes make one store, a hundred times`() async throws {
        for round in 1...100 {
            let machine = try Machine(tcti: nil)
            let outcomes = try await withThrowingTaskGroup { group in
                for _ in 1...8 { group.addTask { try await machine.run("key", "list", "--json") } }
                var outcomes: [Outcome] = []
                for try await outcome in group { outcomes.append(outcome) }
                return outcomes
            }
            for outcome in outcomes { #expect(outcome.status == 0, "round \(round): \(outcome.errors)") }
        }
    }
}
