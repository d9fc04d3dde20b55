import Testing

@testable import LatchkeySSH

struct ConnectionLimitTests {
    @Test func `a process that opens many connections loses its own oldest one`() {
        var limit = ConnectionLimit()
        #expect(limit.add(1, of: 7).isEmpty)
        for id: Int32 in 100..<164 { #expect(limit.add(id, of: 9).isEmpty) }
        #expect(limit.add(164, of: 9) == [100])
        // One that had a request since is not the oldest any more.
        limit.answer(101, isAnswered: true)
        limit.answer(101, isAnswered: false)
        #expect(limit.add(165, of: 9) == [102])
    }

    @Test func `when all connections are in use, the largest process loses one`() {
        var limit = ConnectionLimit()
        for id: Int32 in 0..<64 { #expect(limit.add(id, of: 1).isEmpty) }
        for id: Int32 in 64..<127 { #expect(limit.add(id, of: id).isEmpty) }
        #expect(limit.add(200, of: 500).isEmpty)
        #expect(limit.add(201, of: 501) == [0])
        // One whose request is answered is not closed.
        limit.answer(1, isAnswered: true)
        #expect(limit.add(202, of: 502) == [2])
        limit.remove(3)
        #expect(limit.add(203, of: 503).isEmpty)
    }

    @Test func `without an idle connection, the new one is closed`() {
        var limit = ConnectionLimit()
        for id: Int32 in 0..<64 {
            _ = limit.add(id, of: 1)
            limit.answer(id, isAnswered: true)
        }
        #expect(limit.add(64, of: 1) == [64])
        #expect(limit.add(65, of: 2).isEmpty)
    }

    @Test func `at most 16 connections are forwarded`() {
        var limit = ConnectionLimit()
        for id: Int32 in 0..<16 {
            #expect(limit.add(id, of: 1).isEmpty)
            limit.answer(id, isAnswered: true)
            #expect(limit.forward(id).isEmpty)
            limit.answer(id, isAnswered: false)
        }
        #expect(limit.forward(0).isEmpty, "it is forwarded already")
        #expect(limit.add(16, of: 1).isEmpty, "it is not bound yet")
        limit.answer(16, isAnswered: true)
        #expect(limit.forward(16) == [0])
        // Local connections of the same process stay.
        #expect(limit.add(17, of: 1).isEmpty && limit.add(18, of: 2).isEmpty)
        // All of them have a request.
        for id: Int32 in 1..<17 { limit.answer(id, isAnswered: true) }
        limit.answer(18, isAnswered: true)
        #expect(limit.forward(18) == [18])
    }
}
