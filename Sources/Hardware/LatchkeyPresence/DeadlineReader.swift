internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform

/// Reads bytes from a descriptor until a deadline or a wake-up. Blocks its thread.
struct DeadlineReader {
    enum Event {
        /// The number of bytes read.
        case bytes(Int)
        case end
        /// The byte from the wake-up.
        case woken(UInt8)
        case late
        case failed(SystemError)
    }

    let descriptor: Int32
    let wakeUp: WakeUp
    let deadline: ContinuousClock.Instant

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Event {
        while ContinuousClock.now < deadline {
            do throws(SystemError) {
                let ready = try Poll.wait(
                    for: [(descriptor, POLLIN)], until: deadline, wakeUp: wakeUp)
                if ready.isWoken, let byte = wakeUp.take() { return .woken(byte) }
                guard ready.events[0] != 0 else { continue }
            } catch {
                return .failed(error)
            }
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .end }
            if errno != EINTR, errno != EAGAIN { return .failed(.last) }
        }
        return .late
    }

    /// Reads one byte at a time, so that later bytes stay in the descriptor.
    func readByte() -> (event: Event, byte: UInt8) {
        var byte: UInt8 = 0
        let event = withUnsafeMutableBytes(of: &byte) { read(into: $0) }
        return (event, byte)
    }
}

extension WakeUp {
    /// The byte for a cancelled task. Every other byte is a signal's number.
    static let cancelled: UInt8 = 0

    /// Takes the numbers of the signals that are left.
    func remainingSignals() -> [Int32] {
        var signals: [Int32] = []
        while let byte = take() {
            if byte != Self.cancelled { signals.append(Int32(byte)) }
        }
        return signals
    }
}

/// Runs a blocking prompt on a thread outside the cooperative pool.
///
/// - Parameter body: Gets a wake-up to watch. A byte in it means that the task was cancelled, so the
///   work should end.
func onOwnThread<T: Sendable>(
    _ body: @escaping @Sendable (WakeUp) throws(KeystoreError) -> T
) async throws(KeystoreError) -> T {
    let wakeUp = WakeUp()
    let result = await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
            let isStarted = BlockingThread.start {
                continuation.resume(
                    returning: Result { () throws(KeystoreError) in try body(wakeUp) })
            }
            guard isStarted else {
                let reason = "the system could not start a thread for the prompt"
                let error = KeystoreError(
                    code: .transient, reason: reason,
                    recovery: "End other programs, then try again.")
                continuation.resume(returning: .failure(error))
                return
            }
        }
    } onCancel: {
        wakeUp.wake(WakeUp.cancelled)
    }
    return try result.get()
}

/// A buffer for one line of secret text. It never grows, so it leaves no copies, and it is cleared
/// at its end.
struct SecretBuffer: ~Copyable {
    /// More than the longest PIN, so that a longer one is detected.
    private static let capacity = 2 * PIN.maximumBytes

    private let storage: UnsafeMutableRawBufferPointer
    private(set) var count = 0
    /// Whether the input was longer than the buffer.
    private(set) var isOverfull = false

    init(capacity: Int = capacity) {
        storage = .allocate(byteCount: capacity, alignment: 1)
        storage.initializeMemory(as: UInt8.self, repeating: 0)
    }

    mutating func append(_ byte: UInt8) {
        guard count < storage.count else {
            isOverfull = true
            return
        }
        storage[count] = byte
        count += 1
    }

    /// Removes the last character: one UTF-8 sequence.
    mutating func removeLastCharacter() {
        while count > 0 {
            count -= 1
            let isContinuation = storage[count] & 0xC0 == 0x80
            storage[count] = 0
            if !isContinuation { return }
        }
    }

    func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        body(UnsafeRawBufferPointer(rebasing: storage[..<count]))
    }

    mutating func clear() {
        if let base = storage.baseAddress { explicit_bzero(base, storage.count) }
        count = 0
        isOverfull = false
    }

    /// The line as a PIN, without a byte order mark, which some editors put at the start of a file.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if the line cannot be a PIN.
    func pin() throws(KeystoreError) -> PIN {
        guard !isOverfull else {
            throw .invalidInput("the PIN has more than \(PIN.maximumBytes) bytes").during(
                "read a PIN")
        }
        let line = UnsafeRawBufferPointer(rebasing: storage[..<count])
        let start = line.starts(with: "\u{FEFF}".utf8) ? 3 : 0
        return try PIN(utf8: UnsafeRawBufferPointer(rebasing: line[start...]))
    }

    deinit {
        if let base = storage.baseAddress { explicit_bzero(base, storage.count) }
        storage.deallocate()
    }
}
