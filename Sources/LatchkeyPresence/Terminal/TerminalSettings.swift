internal import Glibc

/// How a terminal was set before another program got hold of it.
struct TerminalSettings {
    private let path: String
    private let saved: termios

    /// - Returns: nil when there is no terminal at `path`.
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
