import LatchkeyPresence
import Synchronization

/// The calls that have come in and are not served yet. A call above a limit is answered at once, before it costs memory.
///
/// Each call counts for its user, however many connections the user has. The bus says whose a connection is. Until its
/// answer comes, which takes one round trip, the calls of a new connection are kept here. A connection may keep few, and
/// all of one user's connections together (dbus-daemon allows 256) do not fill the place for new connections.
final class Backlog: Sendable {
    /// What to do with a call that has come in.
    enum Step: Hashable, Sendable {
        /// Serve it, and call ``leave(_:)`` with the user afterwards.
        case serve(BusCredentials)
        /// Ask the bus who the client is and call ``learn(_:of:)``. The call is kept until then.
        case ask
        /// The call is kept; the bus has been asked already.
        case keep
        /// The call is one too many.
        case refuse
    }

    private struct State {
        var known: [String: BusCredentials] = [:]
        var users = Occupancy<UInt32>(perKind: 16, total: 192)
        /// The calls of connections about which the bus was asked, in the order in which they came.
        var kept: [String: [BusMessage]] = [:]
        var newcomers = Occupancy<String>(perKind: 4, total: 1536)
    }

    private let state = Mutex(State())

    func enter(_ call: BusMessage) -> Step {
        state.withLock { state in
            if let known = state.known[call.sender] { return state.users.enter(known.user) ? .serve(known) : .refuse }
            guard state.newcomers.enter(call.sender) else { return .refuse }
            defer { state.kept[call.sender, default: []].append(call) }
            return state.kept[call.sender] == nil ? .ask : .keep
        }
    }

    /// Notes who a client is until it leaves the bus; nil when the bus knows no such client any more.
    ///
    /// - Returns: The calls of the client that were kept, each with what to do with it.
    func learn(_ credentials: BusCredentials?, of client: String) -> [(call: BusMessage, step: Step)] {
        state.withLock { state in
            let calls = state.kept.removeValue(forKey: client) ?? []
            for _ in calls { state.newcomers.leave(client) }
            guard let credentials else { return calls.map { ($0, .refuse) } }
            state.known[client] = credentials
            return calls.map { ($0, state.users.enter(credentials.user) ? .serve(credentials) : .refuse) }
        }
    }

    /// A call of the user's was served.
    func leave(_ user: UInt32) { state.withLock { $0.users.leave(user) } }

    /// The client has left the bus.
    func forget(_ client: String) { state.withLock { $0.known[client] = nil } }

    static let tooMany = BusError(
        name: "org.freedesktop.DBus.Error.LimitsExceeded", message: "there are too many calls at once")
}
