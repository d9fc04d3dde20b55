internal import Latchkey
internal import Synchronization

/// The last correct secret, in locked memory, for the time that the app allows. A timer erases it.
final class SecretCache: Sendable {
    private struct Kept {
        let pin: PIN
        let deadline: ContinuousClock.Instant
        let timer: Task<Void, Never>
    }

    private let life: Duration?
    private let kept = Mutex<Kept?>(nil)

    /// - Parameter life: nil turns the cache off.
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
