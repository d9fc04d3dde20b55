import Latchkey
import Synchronization

/// A person who gives the PIN at once. It remembers when.
final class PromptPresence: PresenceAuthority {
    static let pin = "493817"

    private let answered = Mutex<ContinuousClock.Instant?>(nil)

    /// The time since the PIN was last given.
    var sincePIN: Duration {
        answered.withLock { $0 }.map { ContinuousClock.now - $0 } ?? .zero
    }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let pin = try PIN(Self.pin)
        answered.withLock { $0 = .now }
        return .pin(pin)
    }
}
