internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The broker's state in a file, replaced as a whole: a crash leaves the old one or the new one.
final class AuthorityStore: Sendable {
    private let path: String
    private let state: Mutex<AuthorityState?>
    /// The approval key's authorization.
    let secret: AuthoritySecret

    /// - Throws: ``KeystoreError`` with code `damaged` for a file that can't be read: it is left as it is.
    init(directory: String) throws(KeystoreError) {
        path = "\(directory)/authority.json"
        guard let file = try PrivateFile.read(path) else {
            state = Mutex(nil)
            secret = try AuthoritySecret(directory: directory, isNew: true)
            return
        }
        let bytes = file.withUnsafeBytes { Data($0) }
        guard let read = try? JSONDecoder().decode(AuthorityState.self, from: bytes),
            read.version == AuthorityState.currentVersion
        else { throw .damaged("start the presence broker", "\(path) can't be read") }
        state = Mutex(read)
        secret = try AuthoritySecret(directory: directory, isNew: false)
    }

    var current: AuthorityState? { state.withLock { $0 } }

    func user(_ user: UInt32) -> AuthorityState.User { current?.users[user] ?? AuthorityState.User() }

    /// Replaces everything.
    func replace(_ new: AuthorityState) throws(KeystoreError) {
        try write(new)
        state.withLock { $0 = new }
    }

    /// Changes what is kept of one user. One call at a time: the authority works on one thread.
    func update(_ user: UInt32, _ change: (inout AuthorityState.User) -> Void) throws(KeystoreError) {
        guard var new = current else { return }
        change(&new.users[user, default: AuthorityState.User()])
        try replace(new)
    }

    private func write(_ new: AuthorityState) throws(KeystoreError) {
        guard let bytes = try? JSONEncoder().encode(new) else {
            throw PrivateFile.unusable(path, "it can't be encoded")
        }
        try PrivateFile.replace(path, by: SecretBytes(bytes))
    }
}
