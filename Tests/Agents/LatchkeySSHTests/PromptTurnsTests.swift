import Testing

@testable import LatchkeySSH

struct PromptTurnsTests {
    private let servers = [SampleServer(), SampleServer()]

    private func forwarded(_ server: Int = 0, process: Int32 = 100) throws -> RequestOrigin {
        RequestOrigin(process: process, source: .server(try servers[server].hostKey))
    }

    private func local(_ process: Int32) -> RequestOrigin {
        RequestOrigin(process: process, source: .local)
    }

    private func isRefused(_ answer: PromptTurns.Answer) -> Bool {
        if case .refused = answer { true } else { false }
    }

    @Test func `a connection whose binding failed is forwarded, one origin for each process`()
        throws
    {
        func origin(_ process: Int32, _ binds: [SessionBind]) -> RequestOrigin {
            var bindings = SessionBindings()
            for bind in binds { try? bindings.bind(bind) }
            return RequestOrigin(process: process, bindings: bindings)
        }
        func failing(_ server: SampleServer) -> SessionBind {
            SessionBind(
                hostKey: server.blob, sessionID: SampleData.session, signature: [],
                isForwarding: true)
        }
        let hop = try servers[0].bind(SampleData.session, isForwarding: true)
        #expect(try !origin(1, [servers[0].bind(SampleData.session)]).isForwarded)
        #expect(origin(1, []) == local(1))
        #expect(try origin(1, [hop]) == forwarded(process: 1))
        #expect(try origin(1, [hop, failing(servers[1])]) == forwarded(process: 1))
        let failed = servers.map { origin(1, [failing($0)]) }
        #expect(failed[0] == failed[1] && failed[0].isForwarded)
        #expect(failed[0] != origin(2, [failing(servers[0])]))
        var turns = PromptTurns()
        #expect(turns.request(1, from: local(1), at: .zero) == .begin)
        #expect(turns.request(2, from: failed[0], at: .zero) == .wait(endsRunning: false))
        #expect(isRefused(turns.request(3, from: failed[1], at: .zero)), "one of them waits")
        #expect(isRefused(turns.request(4, from: try forwarded(process: 1), at: .zero)))
    }

    @Test func `any number of local requests wait, in order`() {
        var turns = PromptTurns()
        #expect(turns.request(0, from: local(0), at: .zero) == .begin)
        for id: UInt64 in 1..<100 {
            let answer = turns.request(id, from: local(Int32(id)), at: .zero)
            #expect(answer == .wait(endsRunning: false))
        }
        for id: UInt64 in 1..<100 {
            #expect(turns.finish(.accepted, at: .zero).next == id)
        }
        #expect(turns.finish(.accepted, at: .zero).next == nil)
    }

    @Test func `one request of a forwarded chain waits`() throws {
        var turns = PromptTurns()
        #expect(turns.request(1, from: try forwarded(), at: .zero) == .begin)
        #expect(turns.request(2, from: try forwarded(), at: .zero) == .wait(endsRunning: false))
        // The same server from another ssh, and the same ssh with another host key.
        for origin in [
            try forwarded(), try forwarded(process: 200), try forwarded(1),
        ] { #expect(isRefused(turns.request(3, from: origin, at: .zero))) }
        #expect(
            turns.request(4, from: try forwarded(1, process: 200), at: .zero)
                == .wait(endsRunning: false), "another chain")
        #expect(turns.withdraw(2) && !turns.withdraw(2) && !turns.withdraw(1))
        #expect(turns.finish(.accepted, at: .zero).next == 4)
    }

    @Test func `a local request ends a forwarded prompt, and comes first`() throws {
        var turns = PromptTurns()
        #expect(turns.request(1, from: try forwarded(), at: .zero) == .begin)
        #expect(turns.request(2, from: try forwarded(), at: .zero) == .wait(endsRunning: false))
        #expect(turns.request(3, from: local(1), at: .zero) == .wait(endsRunning: true))
        #expect(turns.isRunningEnded)
        let handover = turns.finish(.refused, at: .zero)
        #expect(handover.next == 3 && handover.needsPause && handover.refused.isEmpty)
        #expect(!turns.isRunningEnded)
        // The user has refused nothing.
        #expect(turns.finish(.accepted, at: .zero).next == 2)
        // A local prompt is not ended.
        #expect(turns.finish(.undecided, at: .zero).next == nil)
        #expect(turns.request(4, from: local(1), at: .zero) == .begin)
        #expect(turns.request(5, from: local(2), at: .zero) == .wait(endsRunning: false))
        #expect(turns.request(6, from: try forwarded(), at: .zero) == .wait(endsRunning: false))
        #expect(!turns.isRunningEnded)
    }

    /// The user's finger may still be on the reader, or the key of the last answer pressed.
    @Test func `between a local prompt and a forwarded one is a pause`() throws {
        var turns = PromptTurns()
        #expect(turns.request(1, from: local(1), at: .zero) == .begin)
        #expect(turns.request(2, from: local(2), at: .zero) == .wait(endsRunning: false))
        #expect(turns.request(3, from: try forwarded(), at: .zero) == .wait(endsRunning: false))
        #expect(turns.finish(.accepted, at: .zero) == .init(next: 2))
        #expect(turns.finish(.accepted, at: .zero) == .init(next: 3, needsPause: true))
        #expect(turns.request(4, from: try forwarded(), at: .zero) == .wait(endsRunning: false))
        #expect(turns.finish(.accepted, at: .zero) == .init(next: 4), "the same origin")
        #expect(
            turns.request(5, from: try forwarded(1, process: 200), at: .zero)
                == .wait(endsRunning: false))
        #expect(turns.finish(.accepted, at: .zero) == .init(next: 5, needsPause: true))
    }

    @Test func `a program with many requests lets others prompt between`() {
        var turns = PromptTurns()
        #expect(turns.request(0, from: local(1), at: .zero) == .begin)
        for id: UInt64 in 1...50 { _ = turns.request(id, from: local(1), at: .zero) }
        _ = turns.request(99, from: local(2), at: .zero)
        #expect(turns.finish(.accepted, at: .zero).next == 99)
        #expect(turns.finish(.accepted, at: .zero).next == 1)
    }

    @Test func `a refusal makes a forwarded chain quiet, for a time that grows`() throws {
        var turns = PromptTurns()
        var now = Duration.zero
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            #expect(turns.request(1, from: try forwarded(), at: now) == .begin)
            #expect(turns.request(2, from: try forwarded(), at: now) == .wait(endsRunning: false))
            let handover = turns.finish(.refused, at: now)
            #expect(handover.refused == [2] && handover.next == nil, "the one that waits too")
            now += .seconds(seconds) - .milliseconds(1)
            for origin in [try forwarded(), try forwarded(process: 200), try forwarded(1)] {
                #expect(isRefused(turns.request(3, from: origin, at: now)))
            }
            now += .milliseconds(1)
        }
        // Others are not quiet.
        #expect(turns.request(4, from: try forwarded(1, process: 300), at: now) == .begin)
        _ = turns.finish(.accepted, at: now)
        // An accepted prompt ends the series.
        #expect(turns.request(5, from: try forwarded(), at: now) == .begin)
        _ = turns.finish(.accepted, at: now)
        #expect(turns.request(6, from: try forwarded(), at: now) == .begin)
        _ = turns.finish(.refused, at: now)
        #expect(turns.request(7, from: try forwarded(), at: now + .seconds(10)) == .begin)
    }

    @Test func `a wrong PIN is no refusal, and a local user may refuse several keys`() throws {
        var turns = PromptTurns()
        #expect(turns.request(1, from: try forwarded(), at: .zero) == .begin)
        _ = turns.finish(.undecided, at: .zero)
        #expect(turns.request(2, from: try forwarded(), at: .zero) == .begin)
        _ = turns.finish(.undecided, at: .zero)
        for id: UInt64 in 3...6 {
            #expect(turns.request(id, from: local(1), at: .zero) == .begin)
            _ = turns.finish(.refused, at: .zero)
        }
        #expect(isRefused(turns.request(7, from: local(1), at: .zero)))
        #expect(turns.request(8, from: local(2), at: .zero) == .begin)
    }

    @Test func `many local programs get a quiet time too, and forwarders do not cause it`() throws {
        var turns = PromptTurns()
        for id: UInt64 in 1...11 {
            #expect(turns.request(id, from: local(Int32(id)), at: .zero) == .begin)
            _ = turns.finish(.refused, at: .zero)
        }
        #expect(isRefused(turns.request(12, from: local(12), at: .zero)))
        #expect(turns.request(13, from: local(13), at: .seconds(10)) == .begin)
        _ = turns.finish(.accepted, at: .seconds(10))
        for id: UInt64 in 14..<34 {
            let server = try SampleServer().hostKey
            let origin = RequestOrigin(process: Int32(id), source: .server(server))
            #expect(turns.request(id, from: origin, at: .seconds(10)) == .begin)
            _ = turns.finish(.refused, at: .seconds(10))
            // The ssh that forwards the agent may also be a local program.
            #expect(turns.request(id + 100, from: local(Int32(id)), at: .seconds(10)) == .begin)
            _ = turns.finish(.undecided, at: .seconds(10))
        }
    }

    @Test func `a lock ends all requests, without a quiet time`() throws {
        var turns = PromptTurns()
        #expect(turns.request(1, from: try forwarded(), at: .zero) == .begin)
        _ = turns.request(2, from: try forwarded(), at: .zero)
        #expect(turns.withdrawAll() == [2] && turns.isRunningEnded)
        #expect(turns.finish(.refused, at: .zero).next == nil)
        #expect(turns.request(3, from: try forwarded(), at: .zero) == .begin)
        #expect(!turns.isRunningEnded)
    }
}
