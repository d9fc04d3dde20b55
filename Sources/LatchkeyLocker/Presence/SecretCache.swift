internal import Latchkey
internal import Synchronization

/// The secret that was right a short while ago, in locked memory, where the app wants that.
final class SecretCache: Sendable {
    private let life: Duration?
    private let kept = Mutex<(pin: PIN, deadline: ContinuousClock.Instant)?>(nil)

    /// - Parameter life: nil to keep nothing.
    init(life: Duration?) { self.life = life }

    var pin: PIN? {
        kept.withLock { kept in
            if let deadline = kept?.deadline, ContinuousClock.now >= deadline { kept = nil }
            return kept?.pin
        }
    }

    func keep(_ pin: PIN?) {
        guard let life, let pin else { return }
        kept.withLock { $0 = (pin, .now + life) }
    }

    func clear() {
        kept.withLock { $0 = nil }
    }
}
