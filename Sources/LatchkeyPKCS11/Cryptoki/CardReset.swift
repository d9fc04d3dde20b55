internal import Dispatch
internal import Glibc
internal import Synchronization

/// Resets smart cards through pcscd (PC/SC), which ends every login on the card.
///
/// `C_Logout` of Yubico's and OpenSC's modules leaves the card unlocked for every program that may use pcscd. The client
/// library `libpcsclite` is loaded when the first card is reset; both modules depend on it.
enum CardReset {
    /// Resets the card in a reader, and waits while another program's transaction holds it.
    ///
    /// Nothing happens if the reader has no card, or if PC/SC knows no such reader and no other reader has a card. A reset
    /// that takes longer than `limit` continues in its own thread; a later call for the same reader first waits for it.
    ///
    /// - Parameter reader: Its name, or the first 64 bytes of it, as `C_GetSlotInfo` shows it.
    /// - Throws: `leftUnlocked` when the reset failed or took longer than `limit`, or when PC/SC knows no such reader
    ///   although another one has a card.
    static func reset(reader: String, within limit: Duration) throws(CryptokiError) {
        guard let library else { return }
        let answer = Answer()
        let deadline = ContinuousClock.now + limit
        while !Self.readersInUse.withLock({ $0.insert(reader).inserted }) {
            guard ContinuousClock.now < deadline else { throw .heldByAnotherProgram }
            usleep(2000)
        }
        let isStarted = OperatingSystemThread.start {
            let code = library.reset(reader: reader, until: deadline)
            Self.readersInUse.withLock { _ = $0.remove(reader) }
            answer.code.withLock { $0 = code }
            answer.arrival.signal()
        }
        if !isStarted { Self.readersInUse.withLock { _ = $0.remove(reader) } }
        let (seconds, attoseconds) = max(deadline - .now, .zero).components
        let timeout = DispatchTimeInterval.nanoseconds(Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
        guard isStarted, answer.arrival.wait(timeout: .now() + timeout) == .success,
            let code = answer.code.withLock({ $0 })
        else { throw .heldByAnotherProgram }
        guard code != PCSCLibrary.unknownReader else {
            throw CryptokiError(
                .leftUnlocked, function: "SCardListReaders",
                reason: "the card could not be reset: PC/SC has no reader with the name of the slot, ‘\(reader)’")
        }
        guard code == PCSCLibrary.success else {
            throw CryptokiError(
                .leftUnlocked, function: "SCardDisconnect",
                reason: "the card could not be reset: PC/SC answered 0x\(String(code, radix: 16))")
        }
    }

    private final class Answer: Sendable {
        let code = Mutex<UInt32?>(nil)
        let arrival = DispatchSemaphore(value: 0)
    }

    private static let library = PCSCLibrary()
    /// The readers whose cards threads are resetting.
    private static let readersInUse = Mutex<Set<String>>([])
}

extension CryptokiError {
    fileprivate static var heldByAnotherProgram: CryptokiError {
        CryptokiError(
            .leftUnlocked, function: "SCardConnect", reason: "the card was not reset: another program held it")
    }
}
