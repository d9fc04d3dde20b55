internal import FoundationEssentials

/// What is remembered between starts, to bound what goes without a network.
struct LockerCounters: Hashable, Sendable {
    /// By how many seconds the clock may go back before it is taken to have been set.
    static let clockLeeway: TimeInterval = 60

    /// Wrong secrets in a row without a network.
    var failures = 0
    /// The last start with a network.
    var lastOnline: Date?
    /// The latest time that was ever seen.
    var lastSeen: Date?
    /// The generation of the row; 0 where there is none.
    var generation = 0

    init() {}

    init(_ attributes: [String: String], generation: Int) {
        self.generation = generation
        func date(_ name: String) -> Date? {
            attributes[name].flatMap(Int.init).map { Date(timeIntervalSince1970: TimeInterval($0)) }
        }
        // A count that can't be read is no count of nothing.
        failures = attributes["failures"].flatMap(Int.init) ?? Int.max
        lastOnline = date("lastOnline")
        lastSeen = date("lastSeen")
    }

    var attributes: [String: String] {
        var attributes = ["failures": String(failures)]
        attributes["lastOnline"] = lastOnline.map { String(Int($0.timeIntervalSince1970)) }
        attributes["lastSeen"] = lastSeen.map { String(Int($0.timeIntervalSince1970)) }
        return attributes
    }

    mutating func see(_ now: Date) {
        lastSeen = max(lastSeen ?? now, now)
    }

    /// The server has just been there.
    mutating func reset(online now: Date) {
        // A clock that went ahead once and was put right does not count for ever.
        lastSeen = now
        lastOnline = now
        failures = 0
    }

    /// Whether the last start with a network was so long ago, or the clock goes so wrong, that nobody may be recognised
    /// without one.
    func isTooOld(at now: Date, maximumAge: Duration) -> Bool {
        guard let lastOnline, let lastSeen, now >= lastSeen.addingTimeInterval(-Self.clockLeeway) else { return true }
        return now.timeIntervalSince(lastOnline) > TimeInterval(maximumAge.components.seconds)
    }
}
