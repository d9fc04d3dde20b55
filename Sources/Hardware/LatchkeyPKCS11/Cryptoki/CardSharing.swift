internal import Crypto
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Resets smart cards through pcscd (PC/SC), which ends every login on the card.
///
/// `C_Logout` of Yubico's and OpenSC's modules leaves the card unlocked for every program that may
/// use pcscd.
enum CardReset {
    /// Resets the card in a reader, and waits while another program's transaction holds it.
    ///
    /// Nothing happens if the reader has no card, or if PC/SC knows no such reader and no other
    /// reader has a card. A reset that takes longer than `limit` continues in its own thread; a
    /// later call for the same reader first waits for it.
    ///
    /// - Parameter reader: Its name, or the first 64 bytes of it, as `C_GetSlotInfo` shows it.
    /// - Throws: `leftUnlocked` when the reset failed or took longer than `limit`, or when PC/SC
    ///   knows no such reader although another one has a card.
    static func reset(reader: String, within limit: Duration) throws(CryptokiError) {
        guard let library = PCSCLibrary.loaded else { return }
        let deadline = ContinuousClock.now + limit
        while !Self.readersInUse.withLock({ $0.insert(reader).inserted }) {
            guard ContinuousClock.now < deadline else { throw .heldByAnotherProgram }
            usleep(2000)
        }
        let finish: @Sendable () -> Void = { Self.readersInUse.withLock { _ = $0.remove(reader) } }
        let code = BlockingThread.run(within: deadline - .now, unstarted: finish) {
            defer { finish() }
            return library.resetCards(in: reader, until: deadline)
        }
        switch code {
        case PCSCLibrary.success: return
        case nil: throw .heldByAnotherProgram
        case PCSCLibrary.unknownReader:
            throw CryptokiError(
                .leftUnlocked, function: "SCardListReaders",
                reason:
                    "the card could not be reset: PC/SC has no reader with the name of the slot, ‘\(reader)’"
            )
        case let code?:
            throw CryptokiError(
                .leftUnlocked, function: "SCardDisconnect",
                reason: "the card could not be reset: PC/SC answered 0x\(String(code, radix: 16))")
        }
    }

    /// How long ``findsNoCard(in:)`` waits for pcscd.
    static let answerLimit: Duration = .seconds(5)

    /// Whether PC/SC knows that no card is in a reader, which may itself be removed. Blocks for at
    /// most ``answerLimit``.
    ///
    /// - Parameter reader: Its name like in ``reset(reader:within:)``; empty for all readers.
    static func findsNoCard(in reader: String) -> Bool {
        guard let library = PCSCLibrary.loaded else { return false }
        return BlockingThread.run(within: answerLimit, unstarted: {}) {
            library.findsNoCard(in: reader)
        } ?? false
    }

    static func findsNoCard(in reader: String) async -> Bool {
        await withUnsafeContinuation { continuation in
            let isStarted = BlockingThread.start {
                let isGone: Bool = findsNoCard(in: reader)
                continuation.resume(returning: isGone)
            }
            if !isStarted { continuation.resume(returning: false) }
        }
    }

    /// The readers whose cards threads are resetting.
    private static let readersInUse = Mutex<Set<String>>([])
}

extension CryptokiError {
    fileprivate static var heldByAnotherProgram: CryptokiError {
        CryptokiError(
            .leftUnlocked, function: "SCardConnect",
            reason: "the card was not reset: another program held it")
    }
}

/// The cards that this process has unlocked and not locked again.
///
/// A card whose reset failed stays in the set. The process resets these cards in `exit(3)`, because
/// pcscd (1.9.9) leaves a card unlocked if a program that used it ends and another one is connected
/// to it.
final class UnlockedCards: Sendable {
    static let shared = UnlockedCards()

    private struct State {
        /// The readers, by the connections that unlocked their cards.
        var readers: [ObjectIdentifier: String] = [:]
        var locksAtExit = false
        var callsInProgress = 0
        /// Whether the process ends, so that no module may be called any more.
        var isClosed = false
    }

    private let state = Mutex(State())
    /// Held while cards are locked.
    private let locking = Mutex(())

    private init() {}

    /// Records that a proof will be sent to the token in a reader.
    func add(_ connection: ObjectIdentifier, reader: String) {
        let isFirst = state.withLock { state in
            state.readers[connection] = reader
            defer { state.locksAtExit = true }
            return !state.locksAtExit
        }
        if isFirst { atexit { UnlockedCards.shared.lockAll() } }
    }

    func remove(_ connection: ObjectIdentifier) {
        state.withLock { _ = $0.readers.removeValue(forKey: connection) }
    }

    /// - Throws: `cancelled` once the process ends.
    func beginCall() throws(CryptokiError) {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.callsInProgress += 1 }
            return state.isClosed
        }
        if isClosed { throw CryptokiError(.cancelled, reason: "the program ends") }
    }

    func endCall() { state.withLock { $0.callsInProgress -= 1 } }

    /// Locks the cards of a process that ends: no module is called afterwards. Waits at most
    /// `limit` until calls in progress return, such as one that waits for a touch. A second call
    /// waits for the first one: its thread may end the process.
    func lockAll(within limit: Duration = .seconds(5)) {
        locking.withLock { _ in lockAllNow(within: limit) }
    }

    private func lockAllNow(within limit: Duration) {
        let deadline = ContinuousClock.now + limit
        let readers = state.withLock { state in
            state.isClosed = true
            defer { state.readers = [:] }
            return Set(state.readers.values)
        }
        guard !readers.isEmpty else { return }
        while state.withLock({ $0.callsInProgress > 0 }), ContinuousClock.now < deadline {
            usleep(2000)
        }
        for reader in readers {
            try? CardReset.reset(reader: reader, within: max(deadline - .now, .milliseconds(500)))
        }
    }
}

/// A lock on a token for one process of this user at a time, held while it chooses a free slot or
/// ID and generates a key.
///
/// It is an flock(2) on an empty file. It ends with this object, or if the process ends, when no
/// process has a copy of the descriptor; the file stays. Processes of other users and other
/// programs do not take it.
final class TokenLock {
    private let descriptor: Int32

    /// Waits until the lock is free.
    ///
    /// - Parameter isAbandoned: Whether to stop waiting.
    /// - Throws: `locked` if another process has the lock for too long, and `lockUnavailable` if
    ///   the file can't be used.
    init(
        _ identity: TokenIdentity, directory: String? = nil, waitingAtMost limit: Duration,
        isAbandoned: () -> Bool
    ) throws(CryptokiError) {
        let directory =
            if let directory { directory } else { try Self.directory(among: Self.candidates()) }
        let path = "\(directory)/token-\(Self.name(of: identity)).lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CryptokiError(
                .lockUnavailable,
                reason: "\(path) can't be opened: \(SystemError.last)")
        }
        let deadline = ContinuousClock.now + limit
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let reason: CryptokiError? =
                if isAbandoned() {
                    .cancelled
                } else if errno != EWOULDBLOCK && errno != EINTR {
                    CryptokiError(
                        .lockUnavailable,
                        reason: "\(path) can't be locked: \(SystemError.last)")
                } else if ContinuousClock.now >= deadline {
                    CryptokiError(.locked, reason: "another process is creating a key on the token")
                } else {
                    nil
                }
            if let reason {
                close(descriptor)
                throw reason
            }
            usleep(5000)
        }
        // The last statement: if the initializer threw after it, `deinit` would close the
        // descriptor a second time.
        self.descriptor = descriptor
    }

    deinit {
        // A child process has a copy of the descriptor until its `exec`, so close(2) alone may
        // leave the lock to that copy.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// The directories for the file, in order of preference. Other users can't create any of them.
    /// The order does not depend on the environment, so that all processes of the user choose the
    /// same one.
    ///
    /// The home directory of the password database comes before /run/user/UID, which exists only
    /// while the user has a login session. Processes of a user choose different directories only if
    /// the home directory is writable for some of them and not for others, such as a service with
    /// `ProtectHome=`. Root uses /run first.
    private static func candidates() -> [String] {
        let user = geteuid()
        let system = user == 0 ? ["/run/latchkey-locks"] : []
        let home = homeDirectory(of: user).map { ["\($0)/.local/state/latchkey/locks"] } ?? []
        return system + home + ["/run/user/\(user)"]
    }

    /// Chooses the first directory that this user owns and that only this user can write. Creates
    /// it where it is missing.
    ///
    /// - Throws: `lockUnavailable` with the names of all directories.
    static func directory(among candidates: [String]) throws(CryptokiError) -> String {
        for path in candidates {
            make(path)
            if isPrivate(path), access(path, W_OK | X_OK) == 0 { return path }
        }
        throw CryptokiError(
            .lockUnavailable,
            reason: "no directory for the token's lock is writable for this user only: "
                + candidates.joined(separator: ", "))
    }

    /// Creates a directory and its parents. Errors are detected when the directory is used.
    private static func make(_ path: String) {
        var parent = ""
        for name in path.split(separator: "/") {
            parent += "/\(name)"
            mkdir(parent, 0o700)
        }
    }

    private static func isPrivate(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
            && status.st_uid == geteuid()
            && status.st_mode & (S_IWGRP | S_IWOTH) == 0
    }

    /// The home directory in the password database, if it exists and is the user's.
    private static func homeDirectory(of user: uid_t) -> String? {
        let home = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 16384) {
            buffer -> String? in
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            guard let start = buffer.baseAddress,
                getpwuid_r(user, &entry, start, buffer.count, &found) == 0,
                found != nil, let home = entry.pw_dir
            else { return nil }
            return String(cString: home)
        }
        var status = stat()
        guard let home, home.hasPrefix("/"), stat(home, &status) == 0, status.st_uid == user else {
            return nil
        }
        return home
    }

    /// The token's name as a file name. It does not depend on the module, since two modules can use
    /// one token.
    private static func name(of identity: TokenIdentity) -> String {
        let parts = [identity.manufacturer, identity.model, identity.serial, identity.label ?? ""]
        let digest = SHA256.hash(data: Data(parts.joined(separator: "\0").utf8))
        return Data(digest.prefix(16)).hexadecimal
    }
}
