internal import Glibc
public import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Prompts for PINs at a terminal, with the echo off.
///
/// A new PIN is typed twice. Input that cannot be a PIN is prompted for again, three times in all.
/// Ctrl-D and the deadline decline. Ctrl-C does too, and then raises SIGINT, as the terminal does
/// between prompts. The terminal's settings are always restored, also when
/// a signal ends or stops the process.
public struct TerminalPresence: PresenceAuthority {
    /// The number of attempts to type a valid PIN.
    static let rounds = 3
    /// One prompt runs at a time.
    private static let turn = Mutex(())

    private let path: String
    private let timeout: Duration
    private let application: String

    /// - Parameters:
    ///   - path: The terminal's device; by default that of the process.
    ///   - timeout: How long the user may take for one line.
    ///   - application: The name of the program in the prompts.
    public init(
        path: String = "/dev/tty", timeout: Duration = .seconds(120),
        application: String = "Latchkey"
    ) {
        self.path = path
        self.timeout = timeout
        self.application = application
    }

    /// Whether the process has a terminal.
    package static func isPresent(path: String = "/dev/tty") -> Bool {
        let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return isatty(descriptor) == 1
    }

    /// The error of each prompt if the process runs in the background of the terminal.
    package static func backgroundObstacle(path: String = "/dev/tty") -> KeystoreError? {
        TerminalJob.isInBackground(ofDeviceAt: path) ? QuietTerminal.background : nil
    }

    /// - Throws: `KeystoreError`: `unavailable` without a terminal, `invalidInput` if three lines
    ///   in a row were not valid PINs, or were not the same PIN twice.
    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let wording = PromptWording(request, application: application)
        let conversation = TerminalConversation(
            reader: TerminalReader(path: path, timeout: timeout, description: wording.description),
            wording: wording)
        return try await onOwnThread { wakeUp throws(KeystoreError) in
            try Self.turn.withLock { _ throws(KeystoreError) in try conversation.run(wakeUp).get() }
        }
    }

    /// Writes a line on the terminal.
    public func notice(_ notice: PresenceNotice) async {
        NoticeLine(notice).write(toDeviceAt: path)
    }
}

/// Runs one PIN prompt at a terminal. Blocks its thread.
struct TerminalConversation: Sendable {
    let reader: TerminalReader
    let wording: PromptWording

    private enum Line {
        case typed(PIN)
        case unusable(KeystoreError)
        case declined(String)
    }

    func run(_ wakeUp: WakeUp) -> Result<PINAnswer, KeystoreError> {
        reader.run(wakeUp) {
            (terminal: borrowing QuietTerminal) throws(KeystoreError) -> PINAnswer in
            try ask(terminal, wakeUp)
        }
    }

    private func ask(_ terminal: borrowing QuietTerminal, _ wakeUp: WakeUp) throws(KeystoreError)
        -> PINAnswer
    {
        var objection = KeystoreError.invalidInput("no PIN was given").during("read a PIN")
        for _ in 0..<TerminalPresence.rounds {
            switch try line(wording.label, terminal, wakeUp) {
            case .unusable(let error):
                objection = error
                terminal.show(lines: wording.complaint(error))
            case .declined(let why): return .declined(why)
            case .typed(let pin):
                guard wording.isNew else { return .pin(pin) }
                switch try line(wording.repeatLabel, terminal, wakeUp) {
                case .typed(pin): return .pin(pin)
                case .typed, .unusable:
                    objection = PromptWording.differ
                    terminal.show(lines: PromptWording.mismatch)
                case .declined(let why): return .declined(why)
                }
            }
        }
        throw objection
    }

    private func line(
        _ label: String, _ terminal: borrowing QuietTerminal, _ wakeUp: WakeUp
    ) throws(KeystoreError) -> Line {
        var line = TerminalLine()
        if let reason = try reader.read(label, terminal, wakeUp, into: &line) {
            return .declined(reason)
        }
        do throws(KeystoreError) { return .typed(try wording.pin(in: line.text)) } catch {
            return .unusable(error)
        }
    }
}
