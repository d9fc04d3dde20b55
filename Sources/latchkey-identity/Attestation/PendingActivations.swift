import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import Synchronization

/// The activations that wait for the client's answer, in memory. They are lost when the server stops; the client then begins again.
final class PendingActivations: Sendable {
    /// The maximum number of one user's activations. A new one replaces the oldest.
    static let maximumPerUser = 4
    /// The maximum number of all activations.
    static let maximum = 1_000

    private struct Entry {
        let id: String
        let userID: String
        let activation: PendingActivation
    }

    /// In the order of expiry: all have the same lifetime.
    private let entries = Mutex<[Entry]>([])
    private let clock: WallClock

    init(clock: WallClock) { self.clock = clock }

    /// Keeps an activation until it expires or is taken.
    ///
    /// - Returns: Its random ID, 43 characters of base64url.
    func add(_ activation: PendingActivation, of userID: String) -> String {
        let id = OpaqueToken.bytes()
        let now = clock.now
        entries.withLock { entries in
            entries.removeAll { $0.activation.expiresAt <= now }
            let own = entries.filter { $0.userID == userID }
            if own.count >= Self.maximumPerUser, let oldest = own.first { entries.removeAll { $0.id == oldest.id } }
            entries.removeFirst(max(0, entries.count - Self.maximum + 1))
            entries.append(Entry(id: id, userID: userID, activation: activation))
        }
        return id
    }

    /// Removes and returns an activation of this user.
    func take(_ id: String, of userID: String) -> PendingActivation? {
        entries.withLock { entries in
            entries.firstIndex { $0.id == id && $0.userID == userID }.map { entries.remove(at: $0).activation }
        }
    }
}
