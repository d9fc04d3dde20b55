internal import Glibc
internal import Synchronization

/// The tokens that this process has unlocked and not locked again, for when it ends.
///
/// A card whose reset fails stays noted. The process resets the noted cards in `exit(3)`, because pcscd (1.9.9) leaves a
/// card unlocked when a program that used it ends and another one is connected to it.
final class UnlockedCards: Sendable {
    static let shared = UnlockedCards()

    private struct State {
        /// The readers, by the connections that unlocked their cards.
        var readers: [ObjectIdentifier: String] = [:]
        var locksAtExit = false
        var callsInProgress = 0
        /// The process ends: no module is called any more.
        var isClosed = false
    }

    private let state = Mutex(State())

    private init() {}

    /// Notes that a proof is about to be shown to the token in a reader.
    func add(_ connection: ObjectIdentifier, reader: String) {
        let isFirst = state.withLock { state in
            state.readers[connection] = reader
            defer { state.locksAtExit = true }
            return !state.locksAtExit
        }
        if isFirst { atexit { UnlockedCards.shared.lockAll() } }
    }

    func remove(_ connection: ObjectIdentifier) {
        state.withLock { _ = $0.readers.removeValue(forKey: connection) }
    }

    /// - Throws: `cancelled` once the process ends.
    func beginCall() throws(CryptokiError) {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.callsInProgress += 1 }
            return state.isClosed
        }
        if isClosed { throw CryptokiError(.cancelled, reason: "the program ends") }
    }

    func endCall() { state.withLock { $0.callsInProgress -= 1 } }

    /// Locks the cards, for a process that ends: no module is called afterwards. Waits for at most `limit` until calls
    /// come back that are being made, such as one that waits for a touch.
    func lockAll(within limit: Duration = .seconds(3)) {
        let deadline = ContinuousClock.now + limit
        let readers = state.withLock { state in
            state.isClosed = true
            defer { state.readers = [:] }
            return Set(state.readers.values)
        }
        guard !readers.isEmpty else { return }
        while state.withLock({ $0.callsInProgress > 0 }), ContinuousClock.now < deadline { usleep(2000) }
        for reader in readers {
            try? CardReset.reset(reader: reader, within: max(deadline - .now, .milliseconds(500)))
        }
    }
}
