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
    private var turns = FairTurns()

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
        guard let index = turns.next(of: waiting.map(\.user)) else { return [] }
        return begin(waiting.remove(at: index))
    }

    private mutating func begin(_ entry: Entry) -> [Action] {
        running = entry
        turns.begin(entry.user)
        return [.begin(entry)]
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

/// Whose request comes next: users take turns, independent of their number of requests.
struct FairTurns {
    /// The users whose requests ran, the most recent at the end.
    private var served: [UInt32] = []

    mutating func begin(_ user: UInt32) {
        served.removeAll { $0 == user }
        served.append(user)
    }

    /// - Parameter waiting: The users of the requests that wait, in order of arrival.
    /// - Returns: The index of the next request: of the user whose last turn is longest ago, and of two
    ///   such users, of the one with the earlier request. nil if none waits; all turns are then
    ///   forgotten.
    mutating func next(of waiting: [UInt32]) -> Int? {
        if waiting.isEmpty { served = [] }
        return waiting.indices.min { lastTurn(of: waiting[$0]) < lastTurn(of: waiting[$1]) }
    }

    private func lastTurn(of user: UInt32) -> Int { served.firstIndex(of: user) ?? -1 }
}
