import Foundation
import LatchkeyCredentials
import Synchronization

extension CredentialConfiguration {
    init(copiedClaims: CopiedClaims = .all, additionalOrigins: Set<String> = [], clock: any CredentialClock) {
        self.init(copiedClaims: copiedClaims, additionalOrigins: additionalOrigins)
        self.clock = clock
    }
}

/// A clock that a test sets. A sleep advances it at once.
final class SettableClock: CredentialClock {
    private struct State {
        var now = Date(timeIntervalSince1970: 1_800_000_000)
        var sleeps: [Duration] = []
        var sleepsLeft = Int.max
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    var now: Date { state.withLock { $0.now } }

    func advance(_ seconds: TimeInterval) {
        state.withLock { $0.now += seconds }
    }

    /// All sleeps so far.
    var sleeps: [Duration] { state.withLock { $0.sleeps } }

    /// After this many more sleeps, no sleep ends.
    func allow(sleeps: Int) {
        state.withLock { $0.sleepsLeft = sleeps }
    }

    /// Waits until a task sleeps permanently, for a minute at most.
    func asleep() async {
        let watchdog = Task {
            try await Task.sleep(for: .seconds(60))
            state.withLock { state in
                defer { state.waiting = [] }
                return state.waiting
            }.forEach { $0.resume() }
        }
        defer { watchdog.cancel() }
        await withCheckedContinuation { continuation in
            let isAsleep = state.withLock { state in
                guard state.sleepsLeft >= 0 else { return true }
                state.waiting.append(continuation)
                return false
            }
            if isAsleep { continuation.resume() }
        }
    }

    func sleep(for duration: Duration) async throws {
        let woken = state.withLock { state -> [CheckedContinuation<Void, Never>]? in
            state.sleepsLeft -= 1
            guard state.sleepsLeft < 0 else {
                state.sleeps.append(duration)
                state.now += TimeInterval(duration.components.seconds)
                return nil
            }
            defer { state.waiting = [] }
            return state.waiting
        }
        guard let woken else { return }
        woken.forEach { $0.resume() }
        try await Task.sleep(for: .seconds(3600))
    }
}
