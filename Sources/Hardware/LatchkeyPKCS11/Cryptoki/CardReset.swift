internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Resets smart cards through pcscd (PC/SC), which ends every login on the card.
///
/// `C_Logout` of Yubico's and OpenSC's modules leaves the card unlocked for every program that may
/// use pcscd.
enum CardReset {
    /// Resets the card in a reader, and waits while another program's transaction holds it.
    ///
    /// Nothing happens if the reader has no card, or if PC/SC knows no such reader and no other
    /// reader has a card. A reset that takes longer than `limit` continues in its own thread; a
    /// later call for the same reader first waits for it.
    ///
    /// - Parameter reader: Its name, or the first 64 bytes of it, as `C_GetSlotInfo` shows it.
    /// - Throws: `leftUnlocked` when the reset failed or took longer than `limit`, or when PC/SC
    ///   knows no such reader although another one has a card.
    static func reset(reader: String, within limit: Duration) throws(CryptokiError) {
        guard PCSCLibrary.loaded != nil else { return }
        let code = PCSCLibrary.inThread(for: reader, within: limit) { (library, deadline) in
            library.resetCards(in: reader, until: deadline)
        }
        switch code {
        case PCSCLibrary.success: return
        case nil: throw .heldByAnotherProgram
        case PCSCLibrary.unknownReader:
            throw CryptokiError(
                .leftUnlocked, function: "SCardListReaders",
                reason:
                    "the card could not be reset: PC/SC has no reader with the name of the slot, ‘\(reader)’"
            )
        case let code?:
            throw CryptokiError(
                .leftUnlocked, function: "SCardDisconnect",
                reason: "the card could not be reset: PC/SC answered 0x\(String(code, radix: 16))")
        }
    }

    /// How long ``findsNoCard(in:)`` waits for pcscd.
    static let answerLimit: Duration = .seconds(5)

    /// Whether PC/SC knows that no card is in a reader, which may itself be removed. Blocks for at
    /// most ``answerLimit``.
    ///
    /// - Parameter reader: Its name like in ``reset(reader:within:)``; empty for all readers.
    static func findsNoCard(in reader: String) -> Bool {
        guard let library = PCSCLibrary.loaded else { return false }
        return BlockingThread.run(within: answerLimit, unstarted: {}) {
            library.findsNoCard(in: reader)
        } ?? false
    }

    /// The readers with a card; empty if pcscd does not answer. Blocks for at most ``answerLimit``.
    static func readersWithCards() -> [String] {
        guard let library = PCSCLibrary.loaded else { return [] }
        return BlockingThread.run(within: answerLimit, unstarted: {}) {
            library.readersWithCards()
        } ?? []
    }

    static func findsNoCard(in reader: String) async -> Bool {
        await withUnsafeContinuation { continuation in
            let isStarted = BlockingThread.start {
                let isGone: Bool = findsNoCard(in: reader)
                continuation.resume(returning: isGone)
            }
            if !isStarted { continuation.resume(returning: false) }
        }
    }
}

extension CryptokiError {
    fileprivate static var heldByAnotherProgram: CryptokiError {
        CryptokiError(
            .leftUnlocked, function: "SCardConnect",
            reason: "the card was not reset: another program held it")
    }
}

/// The cards that this process has unlocked and not locked again.
///
/// A card whose reset failed stays in the set. The process resets these cards in `exit(3)`, because
/// pcscd (1.9.9) leaves a card unlocked if a program that used it ends and another one is connected
/// to it.
final class UnlockedCards: Sendable {
    static let shared = UnlockedCards()

    private struct State {
        /// The readers, by the connections that unlocked their cards.
        var readers: [ObjectIdentifier: String] = [:]
        var locksAtExit = false
        var callsInProgress = 0
        /// Whether the process ends, so that no module may be called any more.
        var isClosed = false
    }

    private let state = Mutex(State())
    /// Held while cards are locked.
    private let locking = Mutex(())

    private init() {}

    /// Records that a proof will be sent to the token in a reader.
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

    /// Locks the cards of a process that ends: no module is called afterwards. Waits at most
    /// `limit` until calls in progress return, such as one that waits for a touch. A second call
    /// waits for the first one: its thread may end the process.
    func lockAll(within limit: Duration = .seconds(5)) {
        locking.withLock { _ in lockAllNow(within: limit) }
    }

    private func lockAllNow(within limit: Duration) {
        let deadline = ContinuousClock.now + limit
        let readers = state.withLock { state in
            state.isClosed = true
            defer { state.readers = [:] }
            return Set(state.readers.values)
        }
        guard !readers.isEmpty else { return }
        while state.withLock({ $0.callsInProgress > 0 }), ContinuousClock.now < deadline {
            usleep(2000)
        }
        for reader in readers {
            try? CardReset.reset(reader: reader, within: max(deadline - .now, .milliseconds(500)))
        }
    }
}
