import LatchkeySimulators
import Testing

@testable import latchkey_presenced

/// The order of the requests that change records.
struct SignInTurnsTests {
    @Test func `root's requests come first, and one of the others waits`() async throws {
        let turns = SignInTurns()
        #expect(await turns.begin(isRoot: false))
        let (order, next) = AsyncStream.makeStream(of: String.self)
        func wait(_ name: String, isRoot: Bool, _ count: Int) async throws {
            Task {
                guard await turns.begin(isRoot: isRoot) else { return }
                next.yield(name)
                await turns.end()
            }
            try #require(await poll { await turns.waiting == count })
        }
        try await wait("other", isRoot: false, 1)
        #expect(await !turns.begin(isRoot: false))
        try await wait("root", isRoot: true, 2)
        try await wait("root again", isRoot: true, 3)
        await turns.end()
        var seen: [String] = []
        for await name in order {
            seen.append(name)
            if seen.count == 3 { break }
        }
        #expect(seen == ["root", "root again", "other"])
        #expect(await turns.begin(isRoot: false), "nobody has the turn")
    }
}
