internal import Glibc
public import Latchkey
internal import Synchronization

/// Reads PINs from an open file descriptor: one per line, in UTF-8, in the order in which they are asked for. For
/// scripts.
///
/// A new PIN is asked for once. Nothing is read ahead, so what follows the lines that were used stays in the
/// descriptor. The descriptor stays the caller's to close.
public final class DescriptorPresence: PresenceAuthority {
    private let descriptor: Int32
    private let timeout: Duration
    /// Held while a line is read, so that two requests don't share one.
    private let turn = Mutex(())

    /// - Parameters:
    ///   - descriptor: Open for reading.
    ///   - timeout: How long one PIN may take to come.
    public init(_ descriptor: Int32, timeout: Duration = .seconds(120)) {
        self.descriptor = descriptor
        self.timeout = timeout
    }

    /// - Throws: `KeystoreError`: `unavailable` when there are no lines left or the descriptor can't be read,
    ///   `invalidInput` for a line that can't be a PIN.
    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let result = await onOwnThread { wakeUp in self.turn.withLock { _ in self.readLine(wakeUp) } }
        return try result.get()
    }

    /// Writes a line to the process's standard error.
    public func notice(_ notice: PresenceNotice) async {
        NoticeLine(notice).write(to: STDERR_FILENO)
    }

    private func readLine(_ wakeUp: WakeUp) -> Result<PINAnswer, KeystoreError> {
        let reader = PatientReader(descriptor: descriptor, wakeUp: wakeUp, deadline: .now + timeout)
        var line = SecretBuffer()
        do throws(KeystoreError) {
            while true {
                let (event, byte) = reader.readByte()
                switch event {
                case .bytes where byte == UInt8(ascii: "\n"): return .success(.pin(try line.pin()))
                case .bytes: line.append(byte)
                case .end where line.count > 0: return .success(.pin(try line.pin()))
                case .end:
                    throw .unavailable(
                        "the PIN source has no line left",
                        recovery: "Give it one line for each PIN that is asked for.")
                case .woken: return .success(.declined("it was cancelled"))
                case .late: return .success(.declined("no PIN came within \(timeout.components.seconds) seconds"))
                case .failed(EBADF):
                    throw .invalidInput("ask for the PIN", "the descriptor \(descriptor) of the PIN source is not open")
                case .failed(let number):
                    throw .unavailable(
                        "the PIN source can't be read: \(systemReason(number))",
                        recovery: "Open the descriptor for reading, or name another source with --pin-source.")
                }
            }
        } catch {
            return .failure(error)
        }
    }
}
