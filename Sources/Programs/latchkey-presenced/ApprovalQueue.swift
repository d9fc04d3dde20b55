/// The queue of requests: one runs at a time. Users take turns, independent of their number of
/// requests; each user's requests keep their order. A state machine.
struct ApprovalQueue {
    /// The maximum number of requests of one user.
    static let limitPerUser = 4
    /// The maximum number of waiting requests.
    static let limit = 16

    struct Entry: Hashable, Sendable {
        let id: UInt64
        /// The unique name of the client.
        let client: String
        let user: UInt32
    }

    enum Action: Hashable, Sendable {
        /// Begin this request.
        case begin(Entry)
        case wait(Entry)
        /// There are too many requests.
        case refuse(Entry)
        /// Remove this waiting request.
        case withdraw(Entry)
        /// Cancel this running request.
        case interrupt(Entry)
    }

    private var running: Entry?
    /// The waiting requests, in order of arrival.
    private var waiting: [Entry] = []
    /// The users whose requests ran, the most recent at the end.
    private var served: [UInt32] = []

    var isEmpty: Bool { running == nil && waiting.isEmpty }

    mutating func enqueue(_ entry: Entry) -> [Action] {
        guard running != nil else { return begin(entry) }
        let ofUser = waiting.count { $0.user == entry.user } + (running?.user == entry.user ? 1 : 0)
        guard ofUser < Self.limitPerUser, waiting.count < Self.limit else {
            return [.refuse(entry)]
        }
        waiting.append(entry)
        return [.wait(entry)]
    }

    /// The running request has ended.
    mutating func finish(_ id: UInt64) -> [Action] {
        guard running?.id == id else { return [] }
        running = nil
        guard let index = waiting.indices.min(by: { isServedBefore(waiting[$0], waiting[$1]) })
        else {
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

    /// The user whose last turn is longest ago comes first; of two such users, the one with the
    /// earlier request.
    private func isServedBefore(_ left: Entry, _ right: Entry) -> Bool {
        guard left.user != right.user else { return false }
        return (served.firstIndex(of: left.user) ?? -1) < (served.firstIndex(of: right.user) ?? -1)
    }

    /// A client has left the bus or cancelled.
    mutating func cancel(client: String) -> [Action] {
        let gone = waiting.filter { $0.client == client }
        waiting.removeAll { $0.client == client }
        var actions = gone.map(Action.withdraw)
        if let running, running.client == client { actions.append(.interrupt(running)) }
        return actions
    }

    /// A request has waited for another user's long enough.
    mutating func interrupt(for id: UInt64) -> [Action] {
        guard let running, let entry = waiting.first(where: { $0.id == id }),
            entry.user != running.user
        else { return [] }
        return [.interrupt(running)]
    }

    /// The machine is about to sleep.
    mutating func cancelAll() -> [Action] {
        defer { waiting = [] }
        return waiting.map(Action.withdraw) + (running.map { [.interrupt($0)] } ?? [])
    }

    /// A waiting request has timed out.
    mutating func expire(_ id: UInt64) -> [Action] {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return [] }
        return [.withdraw(waiting.remove(at: index))]
    }
}
