internal import Glibc
public import Latchkey

/// Asks for PINs through a pinentry program, whichever the system has: a window on a desktop, a form at a terminal.
///
/// A new PIN is asked for twice, by the program where it can. What can't be a PIN is asked for again, three times in
/// all. The program is trusted with the PIN and with nothing else: its output is bounded and checked.
public struct PinentryPresence: PresenceAuthority {
    private let program: String
    private let environment: [String: String]
    private let timeout: Duration

    /// - Parameters:
    ///   - program: A path, or a name to look up in `PATH`; by default what `PINENTRY_PROGRAM` names, else `pinentry`.
    ///   - environment: For the program. `GPG_TTY`, `TERM`, `DISPLAY`, `WAYLAND_DISPLAY` and the locale are passed on as
    ///     options too.
    ///   - timeout: How long a person may take for one answer, in whole seconds.
    public init(program: String? = nil, environment: [String: String], timeout: Duration = .seconds(120)) {
        self.program = program ?? environment["PINENTRY_PROGRAM"] ?? "pinentry"
        self.environment = environment
        self.timeout = timeout
    }

    /// - Throws: `KeystoreError`: `unavailable` when the program is missing or can't ask, `failed` when it does not
    ///   speak its protocol, `invalidInput` when three answers in a row could not be a PIN.
    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let conversation = PinentryConversation(
            program: program, environment: environment, timeout: timeout, wording: PromptWording(request))
        let result = await onOwnThread { wakeUp in conversation.hold(wakeUp) }
        return try result.get()
    }

    /// Writes a line to the process's standard error.
    public func notice(_ notice: PresenceNotice) async {
        NoticeLine(notice).write(to: STDERR_FILENO)
    }
}
