internal import Dispatch
internal import Glibc
internal import LatchkeyPlatform
internal import LatchkeySimulators
internal import Testing

/// A terminal with a keyboard and screen that the test controls.
package final class PseudoTerminal: Sendable {
    /// The path of the terminal device for programs.
    package let path: String
    private let master: Int32
    /// Kept open, so that the terminal stays usable between two programs.
    private let slave: Int32

    package init() throws {
        // ioctl_tty(2): TIOCSPTLCK and TIOCGPTN, which Swift does not import.
        master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (lock, number): (CInt, CInt) = (0, 0)
        try #require(master >= 0)
        try #require(
            ioctl(master, 0x4004_5431, &lock) == 0 && ioctl(master, 0x8004_5430, &number) == 0)
        path = "/dev/pts/\(number)"
        slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)
        try #require(slave >= 0)
    }

    deinit {
        close(slave)
        close(master)
    }

    package func type(_ text: String) {
        let bytes = Array(text.utf8)
        #expect(write(master, bytes, bytes.count) == bytes.count)
    }

    /// Reads the output until it contains `text`.
    ///
    /// - Returns: The output that this call read.
    @discardableResult
    package func wait(for text: String) async throws -> String {
        let master = master
        let screen: String = await withCheckedContinuation { continuation in
            DispatchQueue(label: "test.terminal").async {
                var bytes: [UInt8] = []
                let deadline = ContinuousClock.now + hangLimit
                while (try? Poll.wait(for: master, POLLIN, until: deadline)) == true {
                    var buffer = [UInt8](repeating: 0, count: 4096)
                    let count = read(master, &buffer, buffer.count)
                    guard count > 0 else { break }
                    bytes += buffer[..<count]
                    if String(decoding: bytes, as: UTF8.self).contains(text) { break }
                }
                continuation.resume(returning: String(decoding: bytes, as: UTF8.self))
            }
        }
        try #require(screen.contains(text), "the screen shows ‘\(screen)’")
        return screen
    }

    /// The output that no call has read yet.
    package func rest() -> String {
        var bytes: [UInt8] = []
        while (try? Poll.wait(for: master, POLLIN, until: .now)) == true {
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = read(master, &buffer, buffer.count)
            guard count > 0 else { break }
            bytes += buffer[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether the terminal echoes input and edits lines.
    package var isAsUsual: Bool {
        var settings = termios()
        tcgetattr(slave, &settings)
        let usual = tcflag_t(ECHO | ICANON | ISIG)
        return settings.c_lflag & usual == usual
    }
}
