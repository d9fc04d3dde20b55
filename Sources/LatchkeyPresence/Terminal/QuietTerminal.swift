internal import Glibc
internal import Latchkey

/// An open terminal that can be silenced: no echo, no line editing, no signals from its keys. It is put back as it was
/// when this goes, at the latest.
struct QuietTerminal: ~Copyable {
    let descriptor: Int32
    private let saved: termios

    private init(descriptor: Int32, saved: termios) {
        self.descriptor = descriptor
        self.saved = saved
    }

    /// - Throws: ``KeystoreError`` with code `unavailable` when there is no terminal at `path`.
    static func open(path: String) throws(KeystoreError) -> QuietTerminal {
        let descriptor = Glibc.open(path, O_RDWR | O_CLOEXEC | O_NOCTTY)
        var saved = termios()
        guard descriptor >= 0, tcgetattr(descriptor, &saved) == 0 else {
            let reason = systemReason(errno)
            if descriptor >= 0 { close(descriptor) }
            throw .unavailable(
                "there is no terminal (\(path): \(reason))",
                recovery: "Run it at a terminal. \(KeystoreError.otherPINSource)")
        }
        return QuietTerminal(descriptor: descriptor, saved: saved)
    }

    /// Keys go to the reader alone, byte by byte. What was typed before is dropped: it was meant for somebody else.
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

    func restore() {
        var saved = saved
        tcsetattr(descriptor, TCSADRAIN, &saved)
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
