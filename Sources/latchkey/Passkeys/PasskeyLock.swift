import Latchkey
import LatchkeyPresence
import Logging

/// The lock of the user's session. While it is locked, no prompt for a passkey is shown.
struct PasskeyLock: Sendable {
    /// The time before the next attempt to observe.
    private static let pause: Duration = .seconds(60)

    let observer: SessionLockObserver
    let log: Logger

    /// Calls `onLock` when the session locks or the machine sleeps, until the task is cancelled. Without systemd-logind, only
    /// the first failure is logged.
    func run(_ onLock: @Sendable () async -> Void) async {
        var isReported = false
        while !Task.isCancelled {
            do throws(KeystoreError) {
                try await observer.run(locking: [], onLock: onLock)
            } catch {
                if !isReported, !Task.isCancelled { log.notice("\(error) \(error.recovery)") }
                isReported = true
            }
            try? await Task.sleep(for: Self.pause)
        }
    }
}
