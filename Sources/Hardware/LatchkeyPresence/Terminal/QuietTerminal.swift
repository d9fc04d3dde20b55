internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// An open terminal that can be set to no echo, no line editing and no signals from keys. The old
/// settings are restored at its end at the latest.
struct QuietTerminal: ~Copyable {
    let descriptor: Int32
    private let saved: termios

    /// - Throws: ``KeystoreError`` with code `unavailable` if there is no terminal at `path`, or if
    ///   this process runs in its background.
    init(path: String) throws(KeystoreError) {
        let descriptor = Glibc.open(path, O_RDWR | O_CLOEXEC | O_NOCTTY)
        var saved = termios()
        guard descriptor >= 0, tcgetattr(descriptor, &saved) == 0 else {
            let reason = SystemError.last.description
            if descriptor >= 0 { close(descriptor) }
            throw .unavailable(
                "there is no terminal (\(path): \(reason))",
                recovery: Recovery("Run the program at a terminal.").then(
                    KeystoreError.orOtherPINSource))
        }
        guard !TerminalJob.isInBackground(of: descriptor) else {
            close(descriptor)
            throw Self.background
        }
        self.descriptor = descriptor
        self.saved = saved
    }

    static var background: KeystoreError {
        .unavailable(
            "the program runs in the background, and the input of the terminal is for the shell",
            recovery: Recovery("Run the program in the foreground.").then(
                KeystoreError.orOtherPINSource))
    }

    /// Silences the terminal again after the process was stopped.
    ///
    /// - Throws: ``KeystoreError`` with code `unavailable` if it continues in the background.
    func resume() throws(KeystoreError) {
        guard !TerminalJob.isInBackground(of: descriptor) else { throw Self.background }
        silence()
    }

    /// Turns the echo off and passes each key to the reader. Discards earlier input, which was
    /// meant for another program.
    func silence() {
        var quiet = saved
        quiet.c_lflag &= ~tcflag_t(ECHO | ECHONL | ICANON | ISIG | IEXTEN)
        quiet.c_iflag |= tcflag_t(ICRNL)
        withUnsafeMutableBytes(of: &quiet.c_cc) { characters in
            characters[Int(VMIN)] = 1
            characters[Int(VTIME)] = 0
        }
        tcsetattr(descriptor, TCSAFLUSH, &quiet)
    }

    /// In the background, the settings are those of the shell.
    func restore() {
        guard !TerminalJob.isInBackground(of: descriptor) else { return }
        var saved = saved
        tcsetattr(descriptor, TCSADRAIN, &saved)
    }

    /// Shows lines, wrapped to the terminal's columns.
    func show(lines: String) {
        show(TerminalText.wrapped(lines, at: 0, TerminalText.width(of: descriptor) ?? .max) + "\n")
    }

    func show(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    deinit {
        restore()
        close(descriptor)
    }
}

/// The job control of a terminal (POSIX.1 section 11.1.4).
enum TerminalJob {
    /// Whether the terminal controls this process and has another process group in its foreground:
    /// a shell reads the user's input.
    static func isInBackground(of descriptor: Int32) -> Bool {
        let foreground = tcgetpgrp(descriptor)
        // -1: the terminal does not control this process.
        return foreground >= 0 && foreground != getpgrp()
    }

    /// - Returns: false also if the terminal cannot be opened.
    static func isInBackground(ofDeviceAt path: String) -> Bool {
        let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return isInBackground(of: descriptor)
    }
}

/// The settings of a terminal, saved before another program uses it.
struct TerminalSettings {
    private let path: String
    private let saved: termios

    /// - Returns: nil if there is no terminal at `path`.
    init?(path: String?) {
        guard let path else { return nil }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var saved = termios()
        guard tcgetattr(descriptor, &saved) == 0 else { return nil }
        self.path = path
        self.saved = saved
    }

    func restore() {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var saved = saved
        tcsetattr(descriptor, TCSADRAIN, &saved)
    }
}

/// Asks the user a question at a terminal, to be confirmed with `yes`.
package enum TerminalQuestion {
    /// The longest answer, in bytes.
    private static let maximumLength = 16

    /// Shows the question and reads one line.
    ///
    /// - Parameters:
    ///   - question: One or two sentences without control characters.
    ///   - path: The terminal's device; by default that of the process.
    ///   - timeout: How long the user may take.
    /// - Returns: Whether the line is `yes`. Every other line, the end of input, the deadline and
    ///   cancellation mean no.
    /// - Throws: `KeystoreError` with code `unavailable` without a terminal.
    package static func isConfirmed(
        _ question: String, path: String = "/dev/tty", timeout: Duration = .seconds(120)
    ) async throws(KeystoreError) -> Bool {
        try await onOwnThread { wakeUp throws(KeystoreError) in
            let terminal = try QuietTerminal(path: path)
            terminal.show(lines: question)
            terminal.show("Type ‘yes’ to confirm: ")
            let reader = DeadlineReader(
                descriptor: terminal.descriptor, wakeUp: wakeUp, deadline: .now + timeout)
            return line(from: reader) == Array("yes".utf8)
        }
    }

    private static func line(from reader: DeadlineReader) -> [UInt8]? {
        var line: [UInt8] = []
        while line.count <= maximumLength {
            guard case (.bytes, let byte) = reader.readByte() else { return nil }
            if byte == UInt8(ascii: "\n") { return line }
            line.append(byte)
        }
        return nil
    }
}
