import Latchkey
import LatchkeyPresence

private func observe(_ records: RecordContainer) {
    Task { try await SessionLockObserver().run(locking: [records]) }
}
