import Testing

@testable import LatchkeyPresence
@testable import latchkey_presenced

struct BacklogTests {
    private static func call(_ client: String) -> BusMessage {
        BusMessage(
            sender: client, path: PresenceWire.path, interface: PresenceWire.interface,
            member: "State", arguments: [],
            ticket: 1)
    }

    private static func user(_ user: UInt32) -> BusCredentials {
        BusCredentials(user: user, process: nil)
    }

    @Test func `one user's calls have one share, however many connections they use`() {
        let backlog = Backlog()
        let connections = (0..<100).map { ":1.\($0)" }
        for client in connections { _ = backlog.learn(Self.user(1000), of: client) }
        _ = backlog.learn(Self.user(1001), of: ":2.0")
        let served = (0..<10).flatMap { _ in connections }.count {
            backlog.enter(Self.call($0)) == .serve(Self.user(1000))
        }
        #expect(served == 16)
        #expect(backlog.enter(Self.call(":2.0")) == .serve(Self.user(1001)), "another user")
        #expect(backlog.enter(Self.call(":3.0")) == .ask, "a new connection")
    }

    @Test func `300 new connections of one user leave room for other new connections`() {
        let backlog = Backlog()
        let connections = (0..<300).map { ":1.\($0)" }
        let steps = (0..<10).flatMap { _ in connections.map { backlog.enter(Self.call($0)) } }
        #expect(steps.count { $0 == .ask } == 300)
        #expect(steps.count { $0 == .keep } == 900)
        #expect(backlog.enter(Self.call(":2.0")) == .ask)
        let known = connections.flatMap { backlog.learn(Self.user(1000), of: $0) }
        #expect(known.count == 1200)
        #expect(known.count { $0.step == .serve(Self.user(1000)) } == 16)
        #expect(known.count { $0.step == .refuse } == 1184)
        #expect(backlog.learn(Self.user(1001), of: ":2.0").map(\.step) == [.serve(Self.user(1001))])
        backlog.leave(1000)
        #expect(
            backlog.enter(Self.call(":1.0")) == .serve(Self.user(1000)),
            "a served call leaves its place")
    }

    @Test func `a client that has left is forgotten`() {
        let backlog = Backlog()
        #expect(backlog.enter(Self.call(":1.0")) == .ask)
        #expect(backlog.learn(nil, of: ":1.0").map(\.step) == [.refuse])
        #expect(backlog.enter(Self.call(":1.0")) == .ask)
        #expect(backlog.learn(Self.user(1000), of: ":1.0").map(\.step) == [.serve(Self.user(1000))])
        backlog.forget(":1.0")
        #expect(backlog.enter(Self.call(":1.0")) == .ask)
    }
}
