internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization
internal import TPM2

/// The broker's state in a file. Each change replaces the whole file, so a crash leaves the old or
/// the new state.
final class AuthorityStore: Sendable {
    private let path: String
    private let state: Mutex<AuthorityState?>
    private let handle = Mutex<TPMHandle?>(nil)
    private let changes = Mutex(())
    private let hidesUsers: Bool
    /// The approval key's authValue.
    let secret: AuthoritySecret

    /// Reads the state.
    ///
    /// - Parameter hidesUsers: Whether ``user(_:)`` returns empty records: without the TPM, nobody
    ///   has a PIN or a permission.
    /// - Throws: ``KeystoreError`` with code `damaged` for a file that cannot be decoded. The file
    ///   is not changed.
    init(directory: String, hidesUsers: Bool = false) throws(KeystoreError) {
        self.hidesUsers = hidesUsers
        // Without its file the broker would start with a new state, without the users' failed fingers.
        try PrivateFile.checkDirectory(directory)
        path = "\(directory)/authority.json"
        guard let file = try PrivateFile.read(path) else {
            state = Mutex(nil)
            secret = try AuthoritySecret(directory: directory, isNew: true)
            return
        }
        let bytes = file.withUnsafeBytes { Data($0) }
        guard let read = try? JSONDecoder().decode(AuthorityState.self, from: bytes),
            read.version == AuthorityState.currentVersion
        else { throw .damaged("\(path) cannot be decoded") }
        state = Mutex(read)
        secret = try AuthoritySecret(directory: directory, isNew: false)
    }

    var current: AuthorityState? { state.withLock { $0 } }

    /// The persistent handle at which the approval key was found last.
    var knownHandle: TPMHandle? {
        get { handle.withLock { $0 } }
        set { handle.withLock { $0 = newValue } }
    }

    func user(_ user: UInt32) -> AuthorityState.User {
        hidesUsers ? AuthorityState.User() : current?.users[user] ?? AuthorityState.User()
    }

    /// Replaces the state.
    func replace(_ new: AuthorityState) throws(KeystoreError) {
        try write(new)
        state.withLock { $0 = new }
    }

    /// Changes the record of one user. Calls are serialized, also those without the TPM's thread.
    func update(_ user: UInt32, _ change: (inout AuthorityState.User) -> Void) throws(KeystoreError)
    {
        try changes.withLock { (_) throws(KeystoreError) in
            guard var new = current else { return }
            change(&new.users[user, default: AuthorityState.User()])
            try replace(new)
        }
    }

    /// Records the handle that the next index gets, before the index exists.
    func record(lastIndex: UInt32) throws(KeystoreError) {
        try changes.withLock { (_) throws(KeystoreError) in
            guard var new = current else { return }
            new.lastIndex = lastIndex
            try replace(new)
        }
    }

    /// Removes the record of one user.
    func forget(_ user: UInt32) throws(KeystoreError) {
        try changes.withLock { (_) throws(KeystoreError) in
            guard var new = current, new.users.removeValue(forKey: user) != nil else { return }
            try replace(new)
        }
    }

    /// Counts the verifications that the end of the service interrupted.
    func resumeFingerAttempts(at now: ContinuousClock.Instant) throws(KeystoreError) {
        guard var new = current else { return }
        var isChanged = false
        for (user, record) in new.users {
            guard var fingers = record.fingers else { continue }
            fingers.resume(at: now)
            guard fingers != record.fingers else { continue }
            new.users[user]?.fingers = fingers
            isChanged = true
        }
        if isChanged { try replace(new) }
    }

    private func write(_ new: AuthorityState) throws(KeystoreError) {
        guard let bytes = try? JSONEncoder().encode(new) else {
            throw PrivateFile.unusable(path, "it cannot be encoded")
        }
        try PrivateFile.replace(path, by: SecretBytes(bytes))
    }
}

/// The persistent state of the presence broker, in a file that only the broker can read. The
/// approval key's authValue is in a separate file, see ``AuthoritySecret``.
struct AuthorityState: Codable, Sendable {
    static let currentVersion = 1

    var version = currentVersion
    /// The pinned storage root key.
    var root: Data
    /// The approval key's public area, and its private part, wrapped by the TPM.
    var publicArea: Data
    var privatePart: Data
    var users: [UInt32: User] = [:]
    /// The last handle that an index got. Nil before the first one.
    var lastIndex: UInt32?

    struct User: Codable, Sendable {
        var pin: UserPIN?
        var enrolment: Enrolment?
        var fingers: FingerAttempts?
        var signIn: SignIn?
    }

    /// The permission to sign in to the machine.
    struct SignIn: Codable, Sendable {
        /// The name of the account, because another one can get its number.
        var name: String
        /// The index of the PIN that was set when the sign-in was allowed. Nil without a PIN.
        var pin: Data?
    }

    /// The index of a user's PIN.
    struct UserPIN: Codable, Sendable {
        /// The public area after the first write.
        var publicArea: Data
        /// The reference of the broker's approval of a write.
        var resetReference: Data
        /// The initial authValue, which the user's PIN replaces. Nil once the PIN is known to be
        /// set.
        var initialValue: Data?
    }

    /// A user's last known enrolled fingers, and the counter of their changes.
    struct Enrolment: Codable, Sendable {
        var set: Data
        /// The public area after the first write. Nil if the TPM has no memory.
        var counter: Data?
    }
}

/// The approval key's authValue. With it and this TPM, an attacker can approve any use.
///
/// It is in a separate file that is read directly into locked memory, because a decoder would leave
/// copies.
struct AuthoritySecret: Sendable {
    private static let count = 32

    let bytes: SecretBytes

    /// Reads or creates the authValue.
    ///
    /// - Parameter isNew: Whether there is no approval key yet, so that a new authValue is needed.
    /// - Throws: ``KeystoreError`` with code `damaged` when there is an approval key but no
    ///   authValue.
    init(directory: String, isNew: Bool) throws(KeystoreError) {
        let path = "\(directory)/authority.secret"
        guard isNew else {
            guard let kept = try PrivateFile.read(path), kept.count == Self.count else {
                throw .damaged("\(path) is missing or was changed")
            }
            bytes = kept
            return
        }
        bytes = .random(count: Self.count)
        try PrivateFile.replace(path, by: bytes)
    }
}
