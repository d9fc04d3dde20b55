internal import Latchkey
internal import Synchronization

/// The secret that was right a short while ago, in locked memory, where the app wants that. It is gone when its time is
/// over, whether anybody looks or not.
final class SecretCache: Sendable {
    private struct Kept {
        let pin: PIN
        let deadline: ContinuousClock.Instant
        let timer: Task<Void, Never>
    }

    private let life: Duration?
    private let kept = Mutex<Kept?>(nil)

    /// - Parameter life: nil to keep nothing.
    init(life: Duration?) { self.life = life }

    deinit { clear() }

    var pin: PIN? {
        expire()
        return kept.withLock { $0?.pin }
    }

    func keep(_ pin: PIN?) {
        guard let life, let pin else { return }
        let deadline = ContinuousClock.now + life
        let timer = Task { [weak self] in
            do { try await Task.sleep(until: deadline, clock: .continuous) } catch { return }
            self?.expire()
        }
        kept.withLock { kept in
            kept?.timer.cancel()
            kept = Kept(pin: pin, deadline: deadline, timer: timer)
        }
    }

    func clear() {
        kept.withLock { kept in
            kept?.timer.cancel()
            kept = nil
        }
    }

    private func expire() {
        kept.withLock { kept in
            if let deadline = kept?.deadline, ContinuousClock.now >= deadline { kept = nil }
        }
    }
}
