internal import Synchronization

/// The keys of the levels that are open now.
final class LevelKeyring: Sendable {
    private let keys = Mutex<[ProtectionLevel: LevelKey]>([:])

    subscript(level: ProtectionLevel) -> LevelKey? { keys.withLock { $0[level] } }

    /// Takes keys in, and forgets those that the phase doesn't have open.
    func adopt(_ opened: [ProtectionLevel: LevelKey], in phase: SessionPhase) {
        keys.withLock { keys in
            keys.merge(opened) { $1 }
            keys = keys.filter { phase.openLevels.contains($0.key) }
        }
    }
}
