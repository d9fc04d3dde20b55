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

    private static func caller(_ user: UInt32) -> Backlog.Caller {
        Backlog.Caller(credentials: Self.user(user), share: isNamed(user) ? user : nil)
    }

    /// The users from 100000 are subordinate IDs.
    private static func isNamed(_ user: UInt32) -> Bool { user < 100_000 }

    @Test func `one user's calls have one share, however many connections they use`() {
        let backlog = Backlog(hasName: Self.isNamed)
        let connections = (0..<100).map { ":1.\($0)" }
        for client in connections { _ = backlog.learn(Self.user(1000), of: client) }
        _ = backlog.learn(Self.user(1001), of: ":2.0")
        let served = (0..<10).flatMap { _ in connections }.count {
            backlog.enter(Self.call($0)) == .serve(Self.caller(1000))
        }
        #expect(served == 16)
        #expect(backlog.enter(Self.call(":2.0")) == .serve(Self.caller(1001)), "another user")
        #expect(backlog.enter(Self.call(":3.0")) == .ask, "a new connection")
    }

    @Test func `300 new connections of one user leave room for other new connections`() {
        let backlog = Backlog(hasName: Self.isNamed)
        let connections = (0..<300).map { ":1.\($0)" }
        let steps = (0..<10).flatMap { _ in connections.map { backlog.enter(Self.call($0)) } }
        #expect(steps.count { $0 == .ask } == 300)
        #expect(steps.count { $0 == .keep } == 900)
        #expect(backlog.enter(Self.call(":2.0")) == .ask)
        let known = connections.flatMap { backlog.learn(Self.user(1000), of: $0) }
        #expect(known.count == 1200)
        #expect(known.count { $0.step == .serve(Self.caller(1000)) } == 16)
        #expect(known.count { $0.step == .refuse } == Backlog.refusalsPerMinute)
        #expect(known.count { $0.step == .ignore } == 1184 - Backlog.refusalsPerMinute)
        #expect(
            backlog.learn(Self.user(1001), of: ":2.0").map(\.step) == [.serve(Self.caller(1001))])
        backlog.leave(Self.caller(1000))
        #expect(
            backlog.enter(Self.call(":1.0")) == .serve(Self.caller(1000)),
            "a served call leaves its place")
    }

    @Test func `a client that has left is forgotten`() {
        let backlog = Backlog(hasName: Self.isNamed)
        #expect(backlog.enter(Self.call(":1.0")) == .ask)
        #expect(backlog.learn(nil, of: ":1.0").map(\.step) == [.ignore])
        #expect(backlog.enter(Self.call(":1.0")) == .ask)
        #expect(
            backlog.learn(Self.user(1000), of: ":1.0").map(\.step) == [.serve(Self.caller(1000))])
        #expect(backlog.forget(":1.0"))
        #expect(!backlog.forget(":1.0"), "no client that was served")
        #expect(backlog.enter(Self.call(":1.0")) == .ask)
    }

    @Test func `the refusals of a user are limited, and a call that is not readable is not stored`()
    {
        let backlog = Backlog(hasName: Self.isNamed)
        _ = backlog.learn(Self.user(1000), of: ":1.0")
        _ = backlog.learn(Self.user(1001), of: ":1.1")
        var long = Self.call(":1.0")
        long.isReadable = false
        let steps = (0..<1000).map { _ in backlog.enter(long) }
        #expect(steps.count { $0 == .refuse } == Backlog.refusalsPerMinute)
        #expect(steps.count { $0 == .ignore } == 1000 - Backlog.refusalsPerMinute)
        #expect(!backlog.mayRefuse(Self.caller(1000)))
        #expect(backlog.mayRefuse(Self.caller(1001)), "another user")
        #expect(backlog.enter(Self.call(":1.0")) == .serve(Self.caller(1000)))
    }

    @Test func `all users without a name have one share, in calls and in refusals`() {
        let backlog = Backlog(hasName: Self.isNamed)
        let subordinates = (100_000..<101_000).map { UInt32($0) }
        let steps = subordinates.map { user in
            let client = ":1.\(user)"
            _ = backlog.learn(Self.user(user), of: client)
            return backlog.enter(Self.call(client))
        }
        let served = zip(subordinates, steps).filter { $1 == .serve(Self.caller($0)) }
        #expect(served.count == 16)
        #expect(steps.count { $0 == .refuse } == Backlog.refusalsPerMinute)
        #expect(steps.count { $0 == .ignore } == 984 - Backlog.refusalsPerMinute)
        #expect(!backlog.mayRefuse(Self.caller(165_535)))
        _ = backlog.learn(Self.user(1000), of: ":2.0")
        #expect(backlog.enter(Self.call(":2.0")) == .serve(Self.caller(1000)), "a named user")
        #expect(backlog.mayRefuse(Self.caller(1000)))
    }
}
