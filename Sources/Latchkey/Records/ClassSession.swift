internal import Synchronization

/// An opened class. Everybody who has it open shares it, and closing it shuts it for all of them at once, for good:
/// who opens the class again gets another session.
package final class ClassSession: Sendable {
    package let name: String
    private let key: Mutex<ClassKey?>

    init(name: String, key: ClassKey) {
        self.name = name
        self.key = Mutex(key)
    }

    /// Whether the class's records can be read with this.
    package var isOpen: Bool { opened != nil }

    /// The key, until the session is closed.
    var opened: ClassKey? { key.withLock { $0 } }

    /// Forgets the key.
    func close() {
        key.withLock { $0 = nil }
    }
}
