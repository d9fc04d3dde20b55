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
    /// Nothing happens where PC/SC knows no such reader, or where the reader has no card that could be unlocked.
    ///
    /// - Parameter reader: Its name, or the first 64 bytes of it, as `C_GetSlotInfo` shows it.
    /// - Throws: `leftUnlocked` when the reset failed or took longer than `limit`.
    static func reset(reader: String, within limit: Duration) throws(CryptokiError) {
        guard !reader.isEmpty, let library else { return }
        let answer = Answer()
        let deadline = ContinuousClock.now + limit
        let isStarted = OperatingSystemThread.start {
            answer.code.withLock { $0 = library.reset(reader: reader, until: deadline) }
            answer.arrival.signal()
        }
        let (seconds, attoseconds) = limit.components
        let timeout = DispatchTimeInterval.nanoseconds(Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
        guard isStarted, answer.arrival.wait(timeout: .now() + timeout) == .success,
            let code = answer.code.withLock({ $0 })
        else {
            throw CryptokiError(
                .leftUnlocked, function: "SCardConnect", reason: "the card was not reset: another program held it")
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
}
