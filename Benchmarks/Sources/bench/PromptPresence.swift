import Latchkey
import Synchronization

/// A user who enters the PIN at once, and the time of that.
final class PromptPresence: PresenceAuthority {
    static let pin = "493817"

    private let answered = Mutex<ContinuousClock.Instant?>(nil)

    /// The time since the last PIN entry.
    var sincePIN: Duration {
        answered.withLock { $0 }.map { ContinuousClock.now - $0 } ?? .zero
    }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let pin = try PIN(Self.pin)
        answered.withLock { $0 = .now }
        return .pin(pin)
    }
}
