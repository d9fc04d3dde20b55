import LatchkeySimulators
import Testing

@testable import latchkey_presenced

/// The order of the requests that change records.
struct SignInTurnsTests {
    @Test func `root's requests come first, and one of the others waits`() async throws {
        let turns = SignInTurns()
        #expect(await turns.begin(for: 1, isRoot: false))
        let (order, next) = AsyncStream.makeStream(of: String.self)
        func wait(_ name: String, isRoot: Bool, _ count: Int) async throws {
            Task {
                guard await turns.begin(for: 1, isRoot: isRoot) else { return }
                next.yield(name)
                await turns.end()
            }
            try #require(await poll { await turns.waiting == count })
        }
        try await wait("other", isRoot: false, 1)
        #expect(await !turns.begin(for: 1, isRoot: false))
        try await wait("root", isRoot: true, 2)
        try await wait("root again", isRoot: true, 3)
        await turns.end()
        var seen: [String] = []
        for await name in order {
            seen.append(name)
            if seen.count == 3 { break }
        }
        #expect(seen == ["root", "root again", "other"])
        #expect(await turns.begin(for: 1, isRoot: false), "nobody has the turn")
    }

    /// Each user can start passwd many times.
    @Test func `the users that root's requests name take turns`() async throws {
        let turns = SignInTurns()
        #expect(await turns.begin(for: 1000, isRoot: true))
        let (order, next) = AsyncStream.makeStream(of: UInt32.self)
        let users: [UInt32] = [1000, 1000, 1000, 1001, 1001, 1002]
        for (index, user) in users.enumerated() {
            Task {
                guard await turns.begin(for: user, isRoot: true) else { return }
                next.yield(user)
                await turns.end()
            }
            try #require(await poll { await turns.waiting == index + 1 })
        }
        await turns.end()
        var seen: [UInt32] = []
        for await user in order {
            seen.append(user)
            if seen.count == users.count { break }
        }
        #expect(seen == [1001, 1002, 1000, 1001, 1000, 1000])
    }
}
