internal import Dispatch
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// A token, found once by its URI and then identified by manufacturer, model, serial number and
/// label.
///
/// ``withSession(isExclusive:_:)`` runs all work on the token's thread with one session that stays
/// open, and follows ``RecoveryPolicy`` if the session or the token is lost.
final class Token: Sendable {
    /// The module that the token was found in.
    let module: Module
    /// The token's information when it was found. ``Session/tokenInformation()`` reads the current
    /// one.
    let information: TokenInformation
    /// A URI that names only this token: `pkcs11:…?module-path=…`.
    let uri: TokenURI
    private let thread: TokenThread
    private let connection: Connection
    let login: LoginReuse
    private let lockLimit: Duration
    /// Whether the last login of the user in this process failed.
    private let lastLoginFailed = Atomic(false)
    var identity: TokenIdentity { connection.identity }

    init(
        module: Module, information: TokenInformation, identity: TokenIdentity, uri: TokenURI,
        options: TokenOptions
    ) {
        self.module = module
        self.information = information
        self.uri = uri
        let thread = module.isThreadSafe ? TokenThread { module.expire($0) } : module.thread
        self.thread = thread
        let login = LoginReuse.of(module, uri)
        self.login = login
        // While another process has the lock, it may generate a key and wait for the touch of the
        // self-test.
        lockLimit = options.deadlines.person * 2
        connection = Connection(
            call: module.caller(on: thread, deadlines: options.deadlines), thread: thread,
            login: login,
            identity: identity, settlingTime: options.settlingTime)
    }

    deinit {
        thread.enqueue { [connection] in connection.close() }
    }

    /// Runs `body` on the token's thread with its session.
    ///
    /// If a call fails because the session, handles or the token were lost, ``RecoveryPolicy`` is
    /// followed and `body` runs **again from its start**: it must be a whole operation that may be
    /// repeated (log in, find, sign), and must not keep a handle from an earlier run. It never runs
    /// again after the token did not accept a PIN.
    ///
    /// - Parameter isExclusive: Whether `body` occupies a free slot or ID. No other process of this
    ///   user does so at the same time (``TokenLock``), and `body` sees the current objects: a
    ///   module that caches them is restarted. Other programs do not take the lock. PKCS#11 has no
    ///   transactions, so an object that one of them creates between the module's reading of the
    ///   token and `C_GenerateKeyPair` is not seen.
    /// - Throws: ``CryptokiError``, from `body` or from the recovery: `tokenAbsent`, `timedOut`,
    ///   `unresponsive`, `loginNeeded` (log in again and repeat), `cancelled`; `locked` if
    ///   exclusive.
    func withSession<R: Sendable>(
        isExclusive: Bool = false, _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        do {
            return try await thread.run {
                [connection, thread, lockLimit, profile = module.profile] () throws(CryptokiError)
                in
                guard isExclusive else { return try connection.withRecovery(body) }
                let lock = try TokenLock(connection.identity, waitingAtMost: lockLimit) {
                    thread.isWorkAbandoned
                }
                defer { withExtendedLifetime(lock) {} }
                if profile.cachesStaleState { try connection.restartModule() }
                return try connection.withRecovery(body)
            }
        } catch {
            throw await module.recognizingRemoval(error, reader: connection.reader)
        }
    }

    /// Runs `body` like ``withSession(isExclusive:_:)``, logged in with a new proof, and logs out.
    /// Ends a kept login.
    ///
    /// Logs out before it sends the proof: a token that considers the user logged in does not check
    /// the PIN. A failure of the logout afterwards is safe too: no operation reuses a login that
    /// ``LoginReuse`` does not confirm.
    ///
    /// - Parameter window: How long the login is kept after `body` has succeeded; nil to log out at
    ///   once.
    func withLogin<R: Sendable>(
        _ role: LoginRole, _ proof: LoginProof, keptFor window: ReuseWindow? = nil,
        isExclusive: Bool = false,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        try await withSession(isExclusive: isExclusive) { [self] (session) throws(CryptokiError) in
            login.forget()
            try session.logout()
            if role == .user { lastLoginFailed.store(true, ordering: .relaxed) }
            try session.login(role, with: proof)
            if role == .user { lastLoginFailed.store(false, ordering: .relaxed) }
            let result = Result { () throws(CryptokiError) in try body(session) }
            let isKept =
                if case .success = result, let window { login.keep(for: window, on: self) } else {
                    false
                }
            if !isKept { try? session.logout() }
            return try result.get()
        }
    }

    /// The state of the user's PIN, from the token's flags and the card's counter.
    ///
    /// - Parameters:
    ///   - information: The current information, which contains the flags.
    ///   - counter: The card's counter, if the token is a card.
    ///   - isPrecise: Whether to read the card's counter even if no wrong PIN is known.
    func pinStatus(
        _ information: TokenInformation, _ counter: PINCounter?, isPrecise: Bool
    ) async throws(CryptokiError) -> PINStatus {
        var status = PINStatus(information)
        let isUseful = isPrecise || status.isCountLow || lastLoginFailed.load(ordering: .relaxed)
        guard let counter, status.attemptsLeft == nil, isUseful else { return status }
        let left = try await withSession { [login] (session) throws(CryptokiError) -> Int? in
            // On some cards, reading the counter ends a login.
            guard !login.isKept else { return nil }
            return counter.attemptsLeft(
                inReader: try session.call.slotDescription(session.slot),
                within: session.call.deadlines.data)
        }
        status.attemptsLeft = left
        status.isLockedOut = left == 0
        return status
    }

    /// Erases the token and sets its label and the security officer's PIN. Nothing is repeated.
    ///
    /// - Parameters:
    ///   - confirmed: The state of the token that the user confirmed. The token must still be in
    ///     this state.
    ///   - label: 1 to 32 bytes.
    func initialize(
        expecting confirmed: TokenInformation, label: String, securityOfficer proof: LoginProof
    ) async throws(CryptokiError) {
        try await thread.run { [connection, login] () throws(CryptokiError) in
            login.forget()
            try connection.initializeToken(confirmed, label: label, securityOfficer: proof)
        }
    }

    /// Finalizes and initializes the module, so that it reads the token's state again. Ends all its
    /// sessions and logins.
    ///
    /// - Parameter afterSettling: Whether to wait first until the system has noticed a removal.
    func restartModule(afterSettling: Bool = false) async throws(CryptokiError) {
        try await thread.run { [connection] () throws(CryptokiError) in
            if afterSettling { connection.settle() }
            try connection.restartModule()
        }
    }
}

/// Identifies a token after it was removed and plugged in again, in any slot.
struct TokenIdentity: Hashable, Sendable {
    let manufacturer: String
    let model: String
    let serial: String
    /// Whether several slots show this serial number. OpenSC has one slot for each PIN of a card.
    let sharesSerial: Bool
    /// nil if the label of the same token may change: OpenSC shows the subject of a certificate.
    let label: String?

    /// - Parameter all: The tokens in all slots of the module.
    init(_ token: TokenInformation, among all: [TokenInformation] = [], in profile: ModuleProfile) {
        manufacturer = token.manufacturer
        model = token.model
        serial = token.serial
        let hasSerial = token.serial.contains { $0 != "0" }
        sharesSerial = hasSerial && all.count { $0.hasSameSerial(as: token) } > 1
        label = profile.family == .opensc && hasSerial && !sharesSerial ? nil : token.label
    }

    func matches(_ token: TokenInformation) -> Bool {
        manufacturer == token.manufacturer && model == token.model && serial == token.serial
            && label.map { $0 == token.label } ?? true
    }

    /// Returns the token or slot in a module that was found for this identity.
    ///
    /// - Throws: `tokenAbsent` if none was found, `tokenAmbiguous` if several were.
    func only<Found>(
        of found: [(information: TokenInformation, value: Found)], in module: Module
    ) throws(CryptokiError) -> Found {
        guard let first = found.first else {
            throw CryptokiError(.tokenAbsent, reason: "the token \(self) is not in any reader")
        }
        guard found.count == 1 else {
            throw .ambiguous(found.map { ($0.information, module.path) })
        }
        return first.value
    }
}

extension TokenInformation {
    fileprivate func hasSameSerial(as other: TokenInformation) -> Bool {
        manufacturer == other.manufacturer && model == other.model && serial == other.serial
    }
}

extension CryptokiError {
    /// Names each token with its label, which tells the slots of one card apart.
    static func ambiguous(_ tokens: [(information: TokenInformation, modulePath: String)])
        -> CryptokiError
    {
        let names = tokens.map { "“\($0.label)” (serial \($0.serial)) in \($1)" }
        return CryptokiError(
            .tokenAmbiguous,
            reason: "\(tokens.count) tokens match the URI: \(names.joined(separator: ", "))")
    }
}

extension TokenIdentity: CustomStringConvertible {
    /// For example `“latchkey” (serial 0123456789abcdef)`.
    var description: String {
        let name = label ?? model
        return serial.isEmpty ? "“\(name)”" : "“\(name)” (serial \(serial))"
    }
}

/// The thread that makes all calls for one token. A call that waits for a touch blocks for seconds;
/// a hanging call, forever.
///
/// Jobs run in order. If a call exceeds its deadline, its job fails; all later jobs fail too,
/// unless the module can be restarted. Cancelling a task ends its wait immediately; its call
/// continues, since Cryptoki can't interrupt one.
final class TokenThread: Sendable {
    /// Handles a call that exceeded its deadline: records it for the module, and returns a closure
    /// that makes the call return (by killing the module's process), so that the thread can be used
    /// again; nil if that is impossible.
    typealias Expiry = @Sendable (_ function: String) -> (@Sendable () -> Void)?

    private struct State {
        /// The first one is the oldest.
        var jobs: [any TokenJob] = []
        var current: (any TokenJob)?
        /// Why no more jobs are accepted.
        var refusal: CryptokiError?
    }

    /// The watch for the calls of this thread.
    let watch = CallWatch()
    private let thread = BlockingThread()
    private let state = Mutex(State())
    private let onExpiry: Expiry

    init(onExpiry: @escaping Expiry) {
        self.onExpiry = onExpiry
        if !thread.hasOwnThread {
            let reason = "the system could not start a thread for the token"
            state.withLock { $0.refusal = CryptokiError(.unresponsive, reason: reason) }
        }
        watch.onExpiry { [weak self] function in self?.expire(function) }
    }

    /// Runs `work` on the thread.
    func run<R: Sendable>(
        _ work: @escaping @Sendable () throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        let job = AwaitedJob(work)
        let outcome = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                job.deliver(to: continuation)
                append(job)
            }
        } onCancel: {
            job.fail(.cancelled)
        }
        return try outcome.get()
    }

    /// Runs `work` on the thread after the queued work, without waiting for it.
    func enqueue(_ work: @escaping @Sendable () -> Void) {
        append(AwaitedJob { () throws(CryptokiError) in work() })
    }

    /// On the thread: whether no task waits for the current work any more.
    var isWorkAbandoned: Bool { state.withLock { $0.current }?.isAbandoned ?? false }

    private func append(_ job: any TokenJob) {
        let refusal: CryptokiError? = state.withLock { state in
            if state.refusal == nil { state.jobs.append(job) }
            return state.refusal
        }
        if let refusal {
            job.fail(refusal)
        } else {
            thread.enqueue { self.runNext() }
        }
    }

    private func runNext() {
        let job: (any TokenJob)? = state.withLock { state in
            state.current = state.jobs.isEmpty ? nil : state.jobs.removeFirst()
            return state.current
        }
        job?.run()
        state.withLock { $0.current = nil }
    }

    /// Called while the watch prevents the end of the call, so that the current job is the one that
    /// made the call.
    private func expire(_ function: String) {
        let killProcess = onExpiry(function)
        let (current, stranded): ((any TokenJob)?, [any TokenJob]) = state.withLock { state in
            guard killProcess == nil else { return (state.current, []) }
            state.refusal = .unresponsive(by: function)
            defer { state.jobs = [] }
            return (state.current, state.jobs)
        }
        for job in stranded { job.fail(.unresponsive(by: function)) }
        // Before the process is killed, because the job must fail with the timeout and not with the
        // result of that.
        current?.fail(.timedOut(in: function))
        killProcess?()
    }
}

extension CryptokiError {
    static func unresponsive(by function: String) -> CryptokiError {
        CryptokiError(
            .unresponsive, function: function,
            reason: "the module hangs: an earlier call in this process never returned")
    }

    static func timedOut(in function: String) -> CryptokiError {
        CryptokiError(.timedOut, function: function, reason: "the module did not answer in time")
    }

    static var cancelled: CryptokiError {
        CryptokiError(.cancelled, reason: "the operation was cancelled")
    }
}

/// A job for a ``TokenThread``, without the type of its result.
private protocol TokenJob: Sendable {
    /// Does the work, unless no task waits for it any more.
    func run()
    /// Ends the wait with an error. A later result of the work is ignored.
    func fail(_ error: CryptokiError)
    /// Whether no task waits any more.
    var isAbandoned: Bool { get }
}

/// A job and the task that waits for it. The first of the work itself, the watchdog, and
/// cancellation ends the wait.
private final class AwaitedJob<R: Sendable>: TokenJob {
    typealias Outcome = Result<R, CryptokiError>

    private struct State {
        var continuation: UnsafeContinuation<Outcome, Never>?
        var outcome: Outcome?
    }

    private let state = Mutex(State())
    private let work: @Sendable () throws(CryptokiError) -> R

    init(_ work: @escaping @Sendable () throws(CryptokiError) -> R) { self.work = work }

    /// Sets the continuation. A job that was cancelled before resumes it immediately.
    func deliver(to continuation: UnsafeContinuation<Outcome, Never>) {
        let outcome: Outcome? = state.withLock { state in
            if state.outcome == nil { state.continuation = continuation }
            return state.outcome
        }
        if let outcome { continuation.resume(returning: outcome) }
    }

    func run() {
        guard !isAbandoned else { return }
        settle(Result { () throws(CryptokiError) in try work() })
    }

    func fail(_ error: CryptokiError) { settle(.failure(error)) }

    var isAbandoned: Bool { state.withLock { $0.outcome != nil } }

    private func settle(_ outcome: Outcome) {
        let waiting: UnsafeContinuation<Outcome, Never>? = state.withLock { state in
            guard state.outcome == nil else { return nil }
            state.outcome = outcome
            defer { state.continuation = nil }
            return state.continuation
        }
        waiting?.resume(returning: outcome)
    }
}
