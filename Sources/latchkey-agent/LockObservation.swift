import Latchkey
import LatchkeyPresence
import Logging

/// Locks the agent when the user's session locks or the machine sleeps: earlier proofs are discarded, and prompts close.
struct LockObservation {
    /// The time before the next attempt to observe.
    private static let pause: Duration = .seconds(60)

    let service: AgentService
    let log: Logger

    /// Runs until the task is cancelled. Without systemd-logind, only the first failure is logged.
    func run() async {
        var isReported = false
        while !Task.isCancelled {
            do throws(KeystoreError) {
                try await SessionLockObserver().run(locking: []) { [service] in await service.lock() }
            } catch {
                if !isReported, !Task.isCancelled { log.notice("\(error) \(error.recovery)") }
                isReported = true
            }
            try? await Task.sleep(for: Self.pause)
        }
    }
}
