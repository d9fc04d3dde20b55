internal import Synchronization

/// A class that is open, or about to be. Everybody who has it open shares it, and closing it shuts it for all of them at
/// once, for good: who opens the class again gets another session.
package final class ClassSession: Sendable {
    private enum Stage {
        case opening
        case open(ClassKey)
        case closed
    }

    package let name: String
    private let stage = Mutex(Stage.opening)

    init(name: String) {
        self.name = name
    }

    /// Whether the class's records can be read with this.
    package var isOpen: Bool { opened != nil }

    /// The key, while the session is open.
    var opened: ClassKey? {
        stage.withLock { stage in
            guard case .open(let key) = stage else { return nil }
            return key
        }
    }

    /// Whether it will never be open again.
    var isClosed: Bool {
        stage.withLock { stage in
            guard case .closed = stage else { return false }
            return true
        }
    }

    /// Takes the key in. A session that was closed before its key came stays closed.
    func open(with key: ClassKey) {
        stage.withLock { stage in
            if case .opening = stage { stage = .open(key) }
        }
    }

    /// Forgets the key.
    func close() {
        stage.withLock { $0 = .closed }
    }
}
