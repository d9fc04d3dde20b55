import Testing

@testable import latchkey_presenced

struct BacklogTests {
    private func enters(_ backlog: Backlog, _ client: String) -> Bool {
        if case .success = backlog.enter(client) { true } else { false }
    }

    @Test func `one user's calls take nobody else's room, over how many connections they come`() {
        let backlog = Backlog()
        let connections = (0..<100).map { ":1.\($0)" }
        for client in connections { backlog.note(1000, of: client) }
        backlog.note(1001, of: ":2.0")
        let entered = (0..<10).flatMap { _ in connections }.count { enters(backlog, $0) }
        #expect(entered == 16)
        #expect(enters(backlog, ":2.0"), "another user, who is known")
        #expect(enters(backlog, ":3.0"), "and one who is not")
    }

    @Test func `who is not known has few calls, and his user's room from then on`() throws {
        let backlog = Backlog()
        let first = try backlog.enter(":1.0").get()
        #expect((0..<10).count { _ in enters(backlog, ":1.0") } == 3)
        backlog.note(1000, of: ":1.0")
        #expect((0..<20).count { _ in enters(backlog, ":1.0") } == 16)
        backlog.forget(":1.0")
        #expect(!enters(backlog, ":1.0"))
        backlog.leave(first)
        #expect(enters(backlog, ":1.0"), "a call leaves the place that it had")
    }
}
