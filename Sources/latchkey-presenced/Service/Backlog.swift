import LatchkeyPresence
import Synchronization

/// The calls that came in and were not looked at yet. Those that are too many are answered on the spot, before they cost
/// memory.
final class Backlog: Sendable {
    private static let limitPerClient = 8
    private static let limit = 256

    private let occupancy = Mutex(Occupancy<String>(perKind: limitPerClient, total: limit))

    /// - Returns: The answer to a call that is one too many; nil for one that has come in.
    func enter(_ call: BusMessage) -> Bus.Reply? {
        guard !occupancy.withLock({ $0.enter(call.sender) }) else { return nil }
        return .failure(
            BusError(name: "org.freedesktop.DBus.Error.LimitsExceeded", message: "there are too many calls at once"))
    }

    func leave(_ call: BusMessage) { occupancy.withLock { $0.leave(call.sender) } }
}
