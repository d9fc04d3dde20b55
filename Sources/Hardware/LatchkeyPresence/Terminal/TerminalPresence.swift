internal import Glibc
public import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Prompts for PINs at a terminal, with the echo off.
///
/// A new PIN is typed twice. Input that cannot be a PIN is prompted for again, three times in all.
/// Ctrl-C, Ctrl-D and the deadline decline. The terminal's settings are always restored, also when
/// a signal ends or stops the process.
public struct TerminalPresence: PresenceAuthority {
    /// The number of attempts to type a valid PIN.
    static let rounds = 3
    /// One prompt runs at a time.
    private static let turn = Mutex(())

    private let path: String
    private let timeout: Duration

    /// - Parameters:
    ///   - path: The terminal's device; by default that of the process.
    ///   - timeout: How long the user may take for one line.
    public init(path: String = "/dev/tty", timeout: Duration = .seconds(120)) {
        self.path = path
        self.timeout = timeout
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
        let conversation = TerminalConversation(
            path: path, timeout: timeout, wording: PromptWording(request))
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
    let path: String
    let timeout: Duration
    let wording: PromptWording

    private enum Line {
        case typed(PIN)
        case unusable(KeystoreError)
        case declined(String)
    }

    func run(_ wakeUp: WakeUp) -> Result<PINAnswer, KeystoreError> {
        let result = SignalCatcher.whileCatching(into: wakeUp) {
            Result { () throws(KeystoreError) in
                let terminal = try QuietTerminal(path: path)
                return try ask(terminal, wakeUp)
            }
        }
        // The signal that ended the prompt, and signals that came since, now that the terminal is
        // restored.
        for signal in wakeUp.remainingSignals() where ![SIGTSTP, SIGCONT].contains(signal) {
            SignalCatcher.raise(signal)
        }
        return result
    }

    private func ask(_ terminal: borrowing QuietTerminal, _ wakeUp: WakeUp) throws(KeystoreError)
        -> PINAnswer
    {
        terminal.silence()
        terminal.show(wording.description + "\n")
        var objection = KeystoreError.invalidInput("no PIN was given").during("read a PIN")
        for _ in 0..<TerminalPresence.rounds {
            switch try line(wording.label, terminal, wakeUp) {
            case .unusable(let error):
                objection = error
                terminal.show(PromptWording.complaint(error) + "\n")
            case .declined(let why): return .declined(why)
            case .typed(let pin):
                guard wording.isNew else { return .pin(pin) }
                switch try line(wording.repeatLabel, terminal, wakeUp) {
                case .typed(pin): return .pin(pin)
                case .typed, .unusable:
                    objection = PromptWording.differ
                    terminal.show(PromptWording.mismatch + "\n")
                case .declined(let why): return .declined(why)
                }
            }
        }
        throw objection
    }

    private func line(
        _ label: String, _ terminal: borrowing QuietTerminal, _ wakeUp: WakeUp
    ) throws(KeystoreError) -> Line {
        terminal.show(label + " ")
        defer { terminal.show("\n") }
        let reader = DeadlineReader(
            descriptor: terminal.descriptor, wakeUp: wakeUp, deadline: .now + timeout)
        var line = TerminalLine()
        while true {
            let (event, byte) = reader.readByte()
            switch event {
            case .bytes:
                switch line.receive(byte) {
                case .wait: break
                case .finished:
                    do throws(KeystoreError) { return .typed(try line.text.pin()) } catch {
                        return .unusable(error)
                    }
                case .declined: return .declined(PINAnswer.userDeclined)
                case .suspend: suspend(terminal)
                }
            case .woken(UInt8(SIGTSTP)): suspend(terminal)
            case .woken(UInt8(SIGCONT)):
                line.clear()
                try resume(terminal, label)
            case .woken(WakeUp.cancelled): return .declined("the prompt was cancelled")
            case .woken(let number):
                // For ``run(_:)``.
                wakeUp.wake(number)
                return .declined("the prompt was interrupted")
            case .late:
                return .declined("there was no answer within \(timeout.components.seconds) seconds")
            case .end: return .declined("the terminal was closed")
            case .failed(let error):
                throw .unavailable(
                    "the terminal cannot be read: \(error)",
                    recovery: KeystoreError.otherPINSource)
            }
        }
    }

    /// Gives the terminal to the shell. SIGCONT ends this.
    private func suspend(_ terminal: borrowing QuietTerminal) {
        terminal.show("\n")
        terminal.restore()
        kill(getpid(), SIGSTOP)
    }

    /// Prompts again after the process was stopped, unless it continues in the background.
    private func resume(
        _ terminal: borrowing QuietTerminal, _ label: String
    ) throws(KeystoreError) {
        try terminal.resume()
        terminal.show(wording.description + "\n" + label + " ")
    }
}

/// One line of input from a terminal without echo and line editing: the meaning of each byte.
struct TerminalLine: ~Copyable {
    enum Action: Equatable {
        case wait
        case finished
        /// Ctrl-C, Ctrl-\, or Ctrl-D on an empty line.
        case declined
        /// Ctrl-Z.
        case suspend
    }

    private(set) var text = SecretBuffer()

    mutating func receive(_ byte: UInt8) -> Action {
        switch byte {
        case UInt8(ascii: "\n"), UInt8(ascii: "\r"): return .finished
        case Control.c, Control.backslash: return .declined
        case Control.d: return text.count == 0 ? .declined : .wait
        case Control.z: return .suspend
        case Control.u: text.clear()
        case Control.h, Control.delete: text.removeLastCharacter()
        default: text.append(byte)
        }
        return .wait
    }

    mutating func clear() { text.clear() }

    /// The terminal's usual editing and signal characters.
    private enum Control {
        static let c: UInt8 = 0x03
        static let d: UInt8 = 0x04
        static let h: UInt8 = 0x08
        static let u: UInt8 = 0x15
        static let z: UInt8 = 0x1A
        static let backslash: UInt8 = 0x1C
        static let delete: UInt8 = 0x7F
    }
}
