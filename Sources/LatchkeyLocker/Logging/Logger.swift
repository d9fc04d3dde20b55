/// Who records what a locker tells of its work. No message has a secret in it: see `LogText`.
public protocol Logger: Sendable {
    /// Takes one message, or discards it. Called from any thread; returns soon.
    func handleLogMessage(_ message: String, level: LogLevel)
}
