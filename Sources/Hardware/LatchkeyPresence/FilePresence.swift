internal import Glibc
public import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Reads PINs from a file or FIFO, for scripts: one per line in UTF-8, in the order of the prompts.
///
/// The file must belong to this user or root, and its group and others must have no permissions. No
/// other user may be able to replace a regular file, by a directory or link on the way to it. A
/// shell's process substitution is a FIFO of the user.
public final class FilePresence: PresenceAuthority {
    private let descriptor: Int32
    private let lines: DescriptorPresence

    public var isInteractive: Bool { false }

    /// Opens the file. Does not wait for a FIFO's first writer; the first prompt does.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput` and the reason.
    public init(path: String, timeout: Duration = .seconds(120)) throws(KeystoreError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { throw Self.refusal(path, SystemError.last.description) }
        if let reason = SecretFile.objection(to: descriptor, openedAs: path) {
            close(descriptor)
            throw Self.refusal(path, reason)
        }
        self.descriptor = descriptor
        lines = DescriptorPresence(descriptor, timeout: timeout)
    }

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await lines.pin(request)
    }

    /// Writes a line to the process's standard error.
    public func notice(_ notice: PresenceNotice) async {
        await lines.notice(notice)
    }

    private static func refusal(_ path: String, _ reason: String) -> KeystoreError {
        .invalidPINSource(
            "the file \(path) cannot be used: \(reason)",
            recovery:
                "Name a file that you own, with mode 600, which others cannot replace.")
    }

    deinit { close(descriptor) }
}

/// Reads PINs from an open file descriptor, for scripts: one per line in UTF-8, in the order of the
/// prompts.
///
/// A new PIN is read once. Bytes after the used lines stay in the descriptor. The caller closes the
/// descriptor.
public final class DescriptorPresence: PresenceAuthority {
    private let descriptor: Int32
    private let timeout: Duration
    /// Held while a line is read, so that two requests do not share a line.
    private let turn = Mutex(())

    public var isInteractive: Bool { false }

    /// - Parameters:
    ///   - descriptor: Open for reading.
    /// - timeout: The maximum wait for one PIN.
    public init(_ descriptor: Int32, timeout: Duration = .seconds(120)) {
        self.descriptor = descriptor
        self.timeout = timeout
    }

    /// - Throws: `KeystoreError`: `unavailable` if no line is left or the descriptor cannot be
    ///   read, `invalidInput` for a line that cannot be a PIN.
    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await onOwnThread { wakeUp throws(KeystoreError) in
            try self.turn.withLock { _ throws(KeystoreError) in try self.readLine(wakeUp) }
        }
    }

    /// Writes a line to the process's standard error.
    public func notice(_ notice: PresenceNotice) async {
        NoticeLine(notice).write(to: STDERR_FILENO)
    }

    private func readLine(_ wakeUp: WakeUp) throws(KeystoreError) -> PINAnswer {
        let reader = DeadlineReader(
            descriptor: descriptor, wakeUp: wakeUp, deadline: .now + timeout)
        var line = SecretBuffer()
        while true {
            let (event, byte) = reader.readByte()
            switch event {
            case .bytes where byte == UInt8(ascii: "\n"): return .pin(try line.pin())
            case .bytes: line.append(byte)
            case .end where line.count > 0: return .pin(try line.pin())
            case .end:
                throw .unavailable(
                    "the PIN source has no line left",
                    recovery: "Provide one line for each PIN prompt.")
            case .woken: return .declined("the prompt was cancelled")
            case .late: return .declined("no PIN came within \(timeout.components.seconds) seconds")
            case .failed(let error) where error.number == EBADF:
                throw .invalidPINSource("the descriptor \(descriptor) is not open for reading")
            case .failed(let error):
                throw .unavailable(
                    "the PIN source cannot be read: \(error)",
                    recovery: Recovery(
                        "Open the descriptor for reading, or use another source of PINs.",
                        .choosePINSource)
                )
            }
        }
    }
}
