internal import Glibc
public import Latchkey
internal import Synchronization

/// Asks for PINs at a terminal, with the echo off.
///
/// A new PIN is asked for twice. What can't be a PIN is asked for again, three times in all. Ctrl-C, Ctrl-D and the
/// deadline decline. The terminal is put back as it was on every path, also when a signal ends or stops the process.
public struct TerminalPresence: PresenceAuthority {
    /// How often a line that can't be a PIN may be corrected, the first one included.
    static let rounds = 3
    /// One prompt at a time: a person has one keyboard.
    private static let turn = Mutex(())

    private let path: String
    private let timeout: Duration

    /// - Parameters:
    ///   - path: The terminal's device; the process's own by default.
    ///   - timeout: How long a person may take for one line.
    public init(path: String = "/dev/tty", timeout: Duration = .seconds(120)) {
        self.path = path
        self.timeout = timeout
    }

    /// Whether the process has a terminal.
    public static func isPresent(path: String = "/dev/tty") -> Bool {
        let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return isatty(descriptor) == 1
    }

    /// - Throws: `KeystoreError`: `unavailable` without a terminal, `invalidInput` when three lines in a row could not
    ///   be a PIN, or were not the same PIN twice.
    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let conversation = TerminalConversation(path: path, timeout: timeout, wording: PromptWording(request))
        let result = await onOwnThread { wakeUp in
            Self.turn.withLock { _ in conversation.hold(wakeUp) }
        }
        return try result.get()
    }

    /// Writes a line on the terminal.
    public func notice(_ notice: PresenceNotice) async {
        NoticeLine(notice).write(toDeviceAt: path)
    }
}
