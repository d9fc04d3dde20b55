internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// Reads lines from a terminal with the echo off. Blocks its thread.
struct TerminalReader: Sendable {
    let path: String
    let timeout: Duration
    /// The text before the first line, and again when the job continues.
    let description: String

    /// Runs `body` on the silent terminal. Then restores the terminal, and raises the signals that
    /// came.
    func run<R>(
        _ wakeUp: WakeUp, _ body: (borrowing QuietTerminal) throws(KeystoreError) -> R
    ) -> Result<R, KeystoreError> {
        let result = SignalCatcher.whileCatching(into: wakeUp) {
            Result { () throws(KeystoreError) -> R in
                let terminal = try QuietTerminal(path: path)
                terminal.silence()
                terminal.show(lines: description)
                return try body(terminal)
            }
        }
        // The signal that ended the prompt, and signals that came since, now that the terminal is
        // restored.
        for signal in wakeUp.remainingSignals() where ![SIGTSTP, SIGCONT].contains(signal) {
            SignalCatcher.raise(signal)
        }
        return result
    }

    /// - Returns: nil for a complete line, otherwise the reason why it is not complete.
    func read(
        _ label: String, _ terminal: borrowing QuietTerminal, _ wakeUp: WakeUp,
        into line: inout TerminalLine
    ) throws(KeystoreError) -> String? {
        terminal.show(label + " ")
        defer { terminal.show("\n") }
        let reader = DeadlineReader(
            descriptor: terminal.descriptor, wakeUp: wakeUp, deadline: .now + timeout)
        while true {
            let (event, byte) = reader.readByte()
            switch event {
            case .bytes:
                switch line.receive(byte) {
                case .wait: break
                case .finished: return nil
                case .declined: return PINAnswer.userDeclined
                case .interrupted:
                    // For ``run(_:_:)``.
                    wakeUp.wake(UInt8(SIGINT))
                    return PINAnswer.userDeclined
                case .suspend: suspend(terminal, &line)
                }
            case .woken(UInt8(SIGTSTP)): suspend(terminal, &line)
            case .woken(UInt8(SIGCONT)):
                line.clear()
                try resume(terminal, label)
            case .woken(WakeUp.cancelled): return "the prompt was cancelled"
            case .woken(let number):
                wakeUp.wake(number)
                return "the prompt was interrupted"
            case .late:
                return "there was no answer within \(timeout.components.seconds) seconds"
            case .end: return "the terminal was closed"
            case .failed(let error):
                throw .unavailable(
                    "the terminal cannot be read: \(error)",
                    recovery: KeystoreError.otherPINSource)
            }
        }
    }

    /// Gives the terminal to the shell, and keeps nothing that was typed. SIGCONT ends this.
    private func suspend(_ terminal: borrowing QuietTerminal, _ line: inout TerminalLine) {
        line.clear()
        terminal.show("\n")
        terminal.restore()
        kill(getpid(), SIGSTOP)
    }

    /// Prompts again after the process was stopped, unless it continues in the background.
    private func resume(
        _ terminal: borrowing QuietTerminal, _ label: String
    ) throws(KeystoreError) {
        try terminal.resume()
        terminal.show(lines: description)
        terminal.show(label + " ")
    }
}

/// Reads a secret other than a PIN from a terminal, without showing it.
package enum TerminalSecret {
    /// Shows the prompt and reads one line, without its end.
    ///
    /// - Parameters:
    ///   - prompt: One or two sentences without control characters.
    ///   - label: The name of the secret, before the input.
    ///   - limit: The maximum number of bytes.
    ///   - path: The terminal's device; by default that of the process.
    ///   - timeout: How long the user may take.
    /// - Throws: `KeystoreError`: `unavailable` without a terminal, `cancelled` if the user
    ///   declines, `invalidInput` for an empty or longer line.
    package static func line(
        _ prompt: String, label: String = "Secret", limit: Int, path: String = "/dev/tty",
        timeout: Duration = .seconds(600)
    ) async throws(KeystoreError) -> SecretBytes {
        let reader = TerminalReader(path: path, timeout: timeout, description: prompt)
        return try await onOwnThread { wakeUp throws(KeystoreError) in
            try reader.run(wakeUp) {
                (terminal: borrowing QuietTerminal) throws(KeystoreError) -> SecretBytes in
                var line = TerminalLine(capacity: limit)
                if let reason = try reader.read("\(label):", terminal, wakeUp, into: &line) {
                    throw .cancelled(reason)
                }
                guard line.text.count > 0, !line.text.isOverfull else {
                    throw .invalidInput(
                        line.text.isOverfull
                            ? "the line has more than \(limit) bytes" : "the line is empty"
                    ).during("read the secret")
                }
                return line.text.withBytes { bytes in
                    SecretBytes(count: bytes.count) { $0.copyMemory(from: bytes) }
                }
            }.get()
        }
    }
}

/// One line of input from a terminal without echo and line editing: the meaning of each byte.
struct TerminalLine: ~Copyable {
    enum Action: Equatable {
        case wait
        case finished
        /// Ctrl-\, or Ctrl-D on an empty line.
        case declined
        /// Ctrl-C.
        case interrupted
        /// Ctrl-Z.
        case suspend
    }

    private(set) var text: SecretBuffer

    /// A line for a PIN.
    init() { text = SecretBuffer() }

    /// - Parameter capacity: The maximum number of bytes.
    init(capacity: Int) { text = SecretBuffer(capacity: capacity) }

    mutating func receive(_ byte: UInt8) -> Action {
        switch byte {
        case UInt8(ascii: "\n"), UInt8(ascii: "\r"): return .finished
        case Control.c: return .interrupted
        case Control.backslash: return .declined
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
