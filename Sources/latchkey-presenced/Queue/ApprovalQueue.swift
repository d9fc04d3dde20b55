/// Whose turn it is: one request at a time. Users take turns, whoever asks how often; each user's requests keep their
/// order. A state machine.
struct ApprovalQueue {
    /// How many requests one user may have waiting.
    static let limitPerUser = 4
    /// How many requests may wait.
    static let limit = 16

    struct Entry: Hashable, Sendable {
        let id: UInt64
        /// The unique name of the client.
        let client: String
        let user: UInt32
    }

    enum Action: Hashable, Sendable {
        /// It is this one's turn.
        case begin(Entry)
        case wait(Entry)
        /// There are too many.
        case refuse(Entry)
        /// It was waiting, and is not any more.
        case withdraw(Entry)
        /// It has its turn, and is to give it up.
        case interrupt(Entry)
    }

    private var running: Entry?
    /// Those that wait, in the order in which they came.
    private var waiting: [Entry] = []
    /// The users whose turn it was, the last one at the end.
    private var served: [UInt32] = []

    mutating func enqueue(_ entry: Entry) -> [Action] {
        guard running != nil else { return begin(entry) }
        let ofUser = waiting.count { $0.user == entry.user } + (running?.user == entry.user ? 1 : 0)
        guard ofUser < Self.limitPerUser, waiting.count < Self.limit else { return [.refuse(entry)] }
        waiting.append(entry)
        return [.wait(entry)]
    }

    /// The one that had its turn is done.
    mutating func finish(_ id: UInt64) -> [Action] {
        guard running?.id == id else { return [] }
        running = nil
        guard let index = waiting.indices.min(by: { isServedBefore(waiting[$0], waiting[$1]) }) else {
            served = []
            return []
        }
        return begin(waiting.remove(at: index))
    }

    private mutating func begin(_ entry: Entry) -> [Action] {
        running = entry
        served.removeAll { $0 == entry.user }
        served.append(entry.user)
        return [.begin(entry)]
    }

    /// The user whose turn is longest ago comes first, of two such the one who asked first.
    private func isServedBefore(_ left: Entry, _ right: Entry) -> Bool {
        guard left.user != right.user else { return false }
        return (served.firstIndex(of: left.user) ?? -1) < (served.firstIndex(of: right.user) ?? -1)
    }

    /// A client has vanished, or wants nothing any more.
    mutating func cancel(client: String) -> [Action] {
        let gone = waiting.filter { $0.client == client }
        waiting.removeAll { $0.client == client }
        var actions = gone.map(Action.withdraw)
        if let running, running.client == client { actions.append(.interrupt(running)) }
        return actions
    }

    /// One that waits has waited too long.
    mutating func expire(_ id: UInt64) -> [Action] {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return [] }
        return [.withdraw(waiting.remove(at: index))]
    }
}
