import LatchkeyPresence
import Synchronization

/// The calls that came in and were not looked at yet. Those that are too many are answered on the spot, before they cost
/// memory.
///
/// Who calls is known after a client's first call. Until then it counts for itself, and has few; from then on it counts
/// for its user, so that nobody has more room who has more connections.
final class Backlog: Sendable {
    /// For whom a call counts.
    enum Place: Hashable, Sendable {
        case user(UInt32)
        case stranger(String)
    }

    private struct State {
        var known: [String: UInt32] = [:]
        var users = Occupancy<UInt32>(perKind: 16, total: 192)
        var strangers = Occupancy<String>(perKind: 4, total: 64)
    }

    private let state = Mutex(State())

    /// - Returns: The place of a call of the client's that has come in, or the answer to one that is one too many.
    func enter(_ client: String) -> Result<Place, BusError> {
        state.withLock { state in
            if let user = state.known[client] {
                guard state.users.enter(user) else { return .failure(Self.tooMany) }
                return .success(.user(user))
            }
            guard state.strangers.enter(client) else { return .failure(Self.tooMany) }
            return .success(.stranger(client))
        }
    }

    func leave(_ place: Place) {
        state.withLock { state in
            switch place {
            case .user(let user): state.users.leave(user)
            case .stranger(let client): state.strangers.leave(client)
            }
        }
    }

    /// Knows whose a client is, until it has left the bus.
    func note(_ user: UInt32, of client: String) { state.withLock { $0.known[client] = user } }

    func forget(_ client: String) { state.withLock { $0.known[client] = nil } }

    private static let tooMany = BusError(
        name: "org.freedesktop.DBus.Error.LimitsExceeded", message: "there are too many calls at once")
}
