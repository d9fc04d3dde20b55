import Synchronization

/// The server's own origin, which is known once it listens: `http://127.0.0.1:43210`.
final class Origin: Sendable {
    private let value: Mutex<String?>

    init(_ fixed: String?) {
        value = Mutex(fixed)
    }

    /// Nil until the server listens.
    var current: String? { value.withLock { $0 } }

    /// Sets the origin, unless an operator fixed it.
    func listening(on origin: String) {
        value.withLock { if $0 == nil { $0 = origin } }
    }
}
