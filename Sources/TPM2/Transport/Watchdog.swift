internal import Dispatch
internal import Glibc
internal import Synchronization

/// Breaks a connection that has gone silent in the middle of a response: a receive that blocks on it then fails.
///
/// Only sockets can be broken so. A device file hands a response over whole or not at all.
final class Watchdog: Sendable {
    private enum State {
        case watching, stoodDown, bitten
    }

    private let state = Mutex(State.watching)

    init(over descriptors: [Int32], until deadline: ContinuousClock.Instant) {
        let left = (deadline - ContinuousClock.now).components
        let nanoseconds = max(0, left.seconds) * 1_000_000_000 + max(0, left.attoseconds) / 1_000_000_000
        DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(Int(nanoseconds))) { [weak self] in
            self?.bite(descriptors)
        }
    }

    /// Ends the watch. The descriptors may be closed afterwards.
    ///
    /// - Returns: Whether the deadline had come.
    func standDown() -> Bool {
        state.withLock { state in
            if state == .watching { state = .stoodDown }
            return state == .bitten
        }
    }

    private func bite(_ descriptors: [Int32]) {
        state.withLock { state in
            guard state == .watching else { return }
            state = .bitten
            for descriptor in descriptors { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }
}
