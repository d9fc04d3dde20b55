/// Decides which connections to close when there are too many. A state machine; it names a
/// connection by its descriptor.
///
/// A client may keep its connection open without requests, so there is no time limit. Only when a
/// limit is exceeded, the connection that has been idle for the longest time is closed, of the
/// process with the most connections. So a process that opens many loses its own.
package struct ConnectionLimit: Sendable {
    /// The maximum number of connections.
    package static let total = 128
    /// The maximum number of connections of one process.
    package static let ofProcess = 64
    /// The maximum number of forwarded connections. The others are reserved for local programs.
    package static let forwarded = 16

    private struct Connection {
        let process: Int32
        var isForwarded = false
        var isAnswered = false
        /// The number of the last event; the smallest one has been idle for the longest time.
        var lastEvent: UInt64
    }

    private var connections: [Int32: Connection] = [:]
    private var events: UInt64 = 0

    package init() {}

    /// - Returns: The connections to close, which count no more.
    package mutating func add(_ id: Int32, of process: Int32) -> [Int32] {
        connections[id] = Connection(process: process, lastEvent: nextEvent())
        var closed: [Int32] = []
        close(&closed, adding: id, limit: Self.ofProcess) { $0.process == process }
        close(&closed, adding: id, limit: Self.total) { _ in true }
        return closed
    }

    /// The connection is bound to a session that forwards it, or its binding failed.
    ///
    /// - Returns: The connections to close, which count no more.
    package mutating func forward(_ id: Int32) -> [Int32] {
        guard connections[id]?.isForwarded == false else { return [] }
        connections[id]?.isForwarded = true
        var closed: [Int32] = []
        close(&closed, adding: id, limit: Self.forwarded) { $0.isForwarded }
        return closed
    }

    /// The agent begins or ends to answer a request of the connection. It is not idle between.
    package mutating func answer(_ id: Int32, isAnswered: Bool) {
        let event = nextEvent()
        connections[id]?.isAnswered = isAnswered
        connections[id]?.lastEvent = event
    }

    package mutating func remove(_ id: Int32) { connections[id] = nil }

    private mutating func nextEvent() -> UInt64 {
        events += 1
        return events
    }

    /// Closes one connection of a group if the group is too large: the new one if none is idle.
    private mutating func close(
        _ closed: inout [Int32], adding id: Int32, limit: Int, of group: (Connection) -> Bool
    ) {
        let members = connections.filter { group($0.value) }
        guard members.count > limit else { return }
        let sizes = members.values.reduce(into: [Int32: Int]()) { $0[$1.process, default: 0] += 1 }
        let idle = members.filter { !$0.value.isAnswered }
        let victim = idle.max { left, right in
            let (one, other) = (sizes[left.value.process] ?? 0, sizes[right.value.process] ?? 0)
            return one == other ? left.value.lastEvent > right.value.lastEvent : one < other
        }
        closed.append(victim?.key ?? id)
        connections[victim?.key ?? id] = nil
    }
}
