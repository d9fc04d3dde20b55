import LatchkeyPlatform
import LatchkeyPresence
import Synchronization

/// The calls that wait to be served. A call above a limit is refused immediately, before it uses
/// memory.
///
/// Refusals have a limit too, above which a call gets no answer. A client that does not read its
/// answers otherwise fills the bus: dbus-daemon stores them, and stops taking messages of this
/// service above a limit for all of its answers. The unanswered calls of a connection (dbus-daemon
/// allows 128) end the flood of that connection.
///
/// Each call counts for its user (``Account/share(of:hasName:)``), independent of the user's number
/// of connections.
///
/// The bus reports the user of a connection. Until its answer arrives, after one round trip, the
/// calls of a new connection are stored here. Each connection can store few calls, and all
/// connections of one user together (dbus-daemon allows 256) cannot use up the space for new
/// connections.
final class Backlog: Sendable {
    /// A client whose user is known.
    struct Caller: Hashable, Sendable {
        let credentials: BusCredentials
        /// The user for whom the client's calls count; nil stands for all users without a name. It
        /// stays the same until the client leaves the bus.
        let share: UInt32?
    }

    /// What to do with a received call.
    enum Step: Hashable, Sendable {
        /// Serve it, then call ``leave(_:)`` with the caller.
        case serve(Caller)
        /// Get the client's credentials from the bus, then call ``learn(_:of:)``. The call is
        /// stored until then.
        case ask
        /// The call is stored; the credentials have been requested already.
        case keep
        /// Refuse the call: a limit is reached, or it is not readable.
        case refuse
        /// Do not answer the call: the limit on refusals is reached too.
        case ignore
    }

    /// The maximum number of refusals of a user's calls in a minute.
    static let refusalsPerMinute = 240

    private struct State {
        var known: [String: Caller] = [:]
        /// By ``Caller/share``.
        var users = Occupancy<UInt32?>(perKind: 16, total: 192)
        /// The calls of connections whose credentials are not known yet, in order of arrival.
        var kept: [String: [BusMessage]] = [:]
        var newcomers = Occupancy<String>(perKind: 4, total: 1536)
        /// By ``Caller/share``; nil stands for all users that are not known yet, too.
        var refusals = RateLimit<UInt32?>(refusalsPerMinute, in: .seconds(60))

        mutating func refuse(_ share: UInt32?) -> Step {
            refusals.admit(share, at: .now) ? .refuse : .ignore
        }
    }

    private let state = Mutex(State())
    private let hasName: @Sendable (UInt32) -> Bool

    /// - Parameter hasName: Whether a user has a name. Called once for each connection.
    init(hasName: @escaping @Sendable (UInt32) -> Bool = { Account.name(of: $0) != nil }) {
        self.hasName = hasName
    }

    func enter(_ call: BusMessage) -> Step {
        state.withLock { state in
            let known = state.known[call.sender]
            guard call.isReadable else { return state.refuse(known?.share) }
            if let known {
                return state.users.enter(known.share) ? .serve(known) : state.refuse(known.share)
            }
            guard state.newcomers.enter(call.sender) else { return state.refuse(nil) }
            defer { state.kept[call.sender, default: []].append(call) }
            return state.kept[call.sender] == nil ? .ask : .keep
        }
    }

    /// Stores a client's credentials until it leaves the bus; nil if the client has left already.
    ///
    /// - Returns: The stored calls of the client, each with its next step.
    func learn(_ credentials: BusCredentials?, of client: String) -> [(
        call: BusMessage, step: Step
    )] {
        // The search for the name may take time.
        let caller = credentials.map {
            Caller(credentials: $0, share: Account.share(of: $0.user, hasName: hasName))
        }
        return state.withLock { state in
            let calls = state.kept.removeValue(forKey: client) ?? []
            for _ in calls { state.newcomers.leave(client) }
            guard let caller else { return calls.map { ($0, .ignore) } }
            state.known[client] = caller
            return calls.map {
                let isServed = state.users.enter(caller.share)
                return ($0, isServed ? .serve(caller) : state.refuse(caller.share))
            }
        }
    }

    /// Whether one more refusal of the caller's calls is sent.
    func mayRefuse(_ caller: Caller) -> Bool {
        state.withLock { $0.refuse(caller.share) == .refuse }
    }

    /// A call of the caller was served.
    func leave(_ caller: Caller) { state.withLock { $0.users.leave(caller.share) } }

    /// Whether no call is served.
    var isEmpty: Bool { state.withLock { $0.users.isEmpty } }

    /// The client has left the bus.
    ///
    /// - Returns: Whether its credentials are known, which is the case for each served client.
    func forget(_ client: String) -> Bool {
        state.withLock { $0.known.removeValue(forKey: client) != nil }
    }

    static let tooMany = BusError(
        name: "org.freedesktop.DBus.Error.LimitsExceeded",
        message: "there are too many concurrent calls")
}
