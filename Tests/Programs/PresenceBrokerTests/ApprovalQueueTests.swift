import Testing

@testable import latchkey_presenced

/// The order of requests.
struct ApprovalQueueTests {
    private func entry(_ id: UInt64, _ client: String = ":1.1", user: UInt32 = 1000)
        -> ApprovalQueue.Entry
    {
        ApprovalQueue.Entry(id: id, client: client, user: user)
    }

    @Test func `requests of one user run in the order of arrival`() {
        var queue = ApprovalQueue()
        #expect(queue.enqueue(entry(1)) == [.begin(entry(1))])
        #expect(queue.enqueue(entry(2)) == [.wait(entry(2))])
        #expect(queue.enqueue(entry(3)) == [.wait(entry(3))])
        #expect(queue.finish(2) == [], "not its turn")
        #expect(queue.finish(1) == [.begin(entry(2))])
        #expect(queue.finish(2) == [.begin(entry(3))])
        #expect(queue.finish(3) == [])
        #expect(queue.enqueue(entry(4)) == [.begin(entry(4))])
    }

    @Test func `users take turns, independent of their number of requests`() {
        var queue = ApprovalQueue()
        for id in 1...4 as ClosedRange<UInt64> { _ = queue.enqueue(entry(id)) }
        _ = queue.enqueue(entry(11, user: 1001))
        #expect(
            queue.finish(1) == [.begin(entry(11, user: 1001))],
            "the other user's first, before the second of this")
        _ = queue.enqueue(entry(12, user: 1001))
        _ = queue.enqueue(entry(21, user: 1002))
        #expect(queue.finish(11) == [.begin(entry(21, user: 1002))], "a user without a turn yet")
        #expect(queue.finish(21) == [.begin(entry(2))])
        #expect(queue.finish(2) == [.begin(entry(12, user: 1001))])
        #expect(queue.finish(12) == [.begin(entry(3))])
        #expect(queue.finish(3) == [.begin(entry(4))])
    }

    @Test func `a user with endless requests gets every second turn`() {
        var queue = ApprovalQueue()
        _ = queue.enqueue(entry(1))
        _ = queue.enqueue(entry(2))
        for turn in 0..<20 as Range<UInt64> {
            let other = entry(1000 + turn, user: 1001)
            _ = queue.enqueue(other)
            #expect(queue.finish(turn + 1) == [.begin(other)])
            _ = queue.enqueue(entry(turn + 3))
            #expect(queue.finish(1000 + turn) == [.begin(entry(turn + 2))])
        }
    }

    @Test func `the requests of a client that leaves are removed`() {
        var queue = ApprovalQueue()
        _ = queue.enqueue(entry(1, ":1.1"))
        _ = queue.enqueue(entry(2, ":1.2"))
        _ = queue.enqueue(entry(3, ":1.1"))
        #expect(
            queue.cancel(client: ":1.1") == [
                .withdraw(entry(3, ":1.1")), .interrupt(entry(1, ":1.1")),
            ])
        #expect(
            queue.finish(1) == [.begin(entry(2, ":1.2"))],
            "the interrupted one still gives its turn up itself")
        #expect(queue.cancel(client: ":1.9") == [])
    }

    @Test func `requests that are cancelled at once do not keep the reader`() {
        var queue = ApprovalQueue()
        var reader = ScriptedReader()
        for id in 1...10 as ClosedRange<UInt64> {
            reader.perform(queue.enqueue(entry(id, ":1.\(id)")))
            reader.perform(queue.cancel(client: ":1.\(id)"))
        }
        // The first verification ends after the cancellation of all.
        while let ended = reader.interrupted.popLast() { reader.perform(queue.finish(ended)) }
        #expect(reader.begun == [1] && reader.withdrawn == Array(2...10))
        reader.perform(queue.enqueue(entry(11)))
        #expect(reader.begun == [1, 11])
    }

    @Test func `a waiting request ends another user's that runs, and none of the same user`() {
        var queue = ApprovalQueue()
        #expect(queue.isEmpty)
        _ = queue.enqueue(entry(1))
        _ = queue.enqueue(entry(2))
        _ = queue.enqueue(entry(3, user: 1001))
        #expect(queue.interrupt(for: 2) == [], "of the same user")
        #expect(queue.interrupt(for: 1) == [] && queue.interrupt(for: 9) == [], "does not wait")
        #expect(queue.interrupt(for: 3) == [.interrupt(entry(1))])
        #expect(queue.finish(1) == [.begin(entry(3, user: 1001))])
        #expect(queue.interrupt(for: 3) == [] && !queue.isEmpty)
    }

    @Test func `before a sleep all requests end, and later ones begin`() {
        var queue = ApprovalQueue()
        var reader = ScriptedReader()
        for id in 1...3 as ClosedRange<UInt64> { reader.perform(queue.enqueue(entry(id))) }
        reader.perform(queue.cancelAll())
        #expect(reader.interrupted == [1] && reader.withdrawn == [2, 3])
        reader.perform(queue.finish(1))
        #expect(reader.begun == [1])
        reader.perform(queue.enqueue(entry(4)))
        #expect(reader.begun == [1, 4])
        #expect(queue.finish(4) == [] && queue.cancelAll() == [])
    }

    @Test func `no user can fill the queue`() {
        var queue = ApprovalQueue()
        for id in 1...UInt64(ApprovalQueue.limitPerUser) { _ = queue.enqueue(entry(id)) }
        #expect(queue.enqueue(entry(9)) == [.refuse(entry(9))])
        #expect(queue.enqueue(entry(10, user: 1001)) == [.wait(entry(10, user: 1001))])
        for id in 100..<200 { _ = queue.enqueue(entry(UInt64(id), user: UInt32(id))) }
        #expect(queue.enqueue(entry(999, user: 5000)) == [.refuse(entry(999, user: 5000))])
    }

    @Test func `a waiting request times out`() {
        var queue = ApprovalQueue()
        _ = queue.enqueue(entry(1))
        _ = queue.enqueue(entry(2))
        #expect(queue.expire(2) == [.withdraw(entry(2))])
        #expect(queue.expire(2) == [])
        #expect(queue.expire(1) == [], "a running request has a separate timeout")
    }
}

/// A reader that notes what the queue requests.
private struct ScriptedReader {
    var begun: [UInt64] = []
    var interrupted: [UInt64] = []
    var withdrawn: [UInt64] = []

    mutating func perform(_ actions: [ApprovalQueue.Action]) {
        for action in actions {
            switch action {
            case .begin(let entry): begun.append(entry.id)
            case .interrupt(let entry): interrupted.append(entry.id)
            case .withdraw(let entry): withdrawn.append(entry.id)
            case .wait, .refuse: break
            }
        }
    }
}
