internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// A token, found once by its URI and then identified by manufacturer, model, serial number and
/// label.
///
/// ``withSession(_:)`` runs all work on the token's thread with one session that stays open, and
/// repeats it as ``RecoveryPolicy`` decides if the session or the token is lost.
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
    /// If a call fails because the session, handles, the token or a login were lost, ``RecoveryPolicy``
    /// decides what is repeated, and `body` runs **again from its start**: it must be a whole
    /// operation that may be repeated (log in, find, sign), and must not keep a handle from an
    /// earlier run. It never runs again after the token did not accept a PIN.
    ///
    /// - Throws: ``CryptokiError``, from `body` or from the recovery: `tokenAbsent`, `timedOut`,
    ///   `unresponsive`, `loginNeeded` (log in again and repeat), `cancelled`.
    func withSession<R: Sendable>(
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        try await onThread { (connection) throws(CryptokiError) in
            try connection.withRecovery(body)
        }
    }

    private func onThread<R: Sendable>(
        _ work: @escaping @Sendable (Connection) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        let wait = HardwareWait.begin(for: .token)
        defer { wait?.cancel() }
        do {
            return try await thread.run { [connection] () throws(CryptokiError) in
                try work(connection)
            }
        } catch {
            throw await module.recognizingRemoval(error, reader: connection.reader)
        }
    }

    /// Runs `body`, which occupies a free slot or ID in a session. No other process of this user
    /// does so at the same time (``ProcessLock``), and sessions in `body` see the current objects:
    /// a module that caches them is restarted. Other programs do not take the lock. PKCS#11 has no
    /// transactions, so an object that one of them creates between the module's reading of the
    /// token and `C_GenerateKeyPair` is not seen.
    ///
    /// - Parameter isNeeded: Whether `body` may occupy one.
    /// - Throws: `locked`, and the errors of ``withSession(_:)``.
    func exclusively<R: Sendable>(
        if isNeeded: Bool = true, _ body: @Sendable () async throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        guard isNeeded else { return try await body() }
        let lock = try await ProcessLock.ofToken(identity, waitingAtMost: lockLimit)
        // The thread has the lock, so that a call which generates a key keeps it if the task stops
        // to wait.
        defer {
            Task { [self] in
                try? await onThread { (connection) throws(CryptokiError) in
                    connection.creationLock = nil
                }
            }
        }
        try await onThread { [module] (connection) throws(CryptokiError) in
            connection.creationLock = lock
            if module.profile.cachesStaleState { try connection.restartModule() }
        }
        return try await body()
    }

    /// Runs `body` like ``withSession(_:)``, logged in with a new proof, and logs out. Ends a kept
    /// login.
    ///
    /// Logs out before it sends the proof: a token that considers the user logged in does not check
    /// the PIN. A failure of the logout afterwards is safe too: no operation reuses a login that
    /// ``LoginReuse`` does not confirm.
    ///
    /// - Parameter window: How long the login is kept after `body` has succeeded; nil to log out at
    ///   once.
    func withLogin<R: Sendable>(
        _ role: LoginRole, _ proof: LoginProof, keptFor window: ReuseWindow? = nil,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        try await withSession { [self] (session) throws(CryptokiError) in
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

    /// Changes the user's PIN.
    ///
    /// Logs in first: tpm2-pkcs11 1.9.0 answers `CKR_OK` to a `C_SetPIN` without a login even if the
    /// TPM refused the old PIN. An expired PIN can't log in, but can be changed (PKCS#11 2.40
    /// section 5.6); the new PIN then logs in as a check.
    func changePIN(from old: LoginProof, to new: LoginProof) async throws(CryptokiError) {
        do throws(CryptokiError) {
            try await withLogin(.user, old) { (session) throws(CryptokiError) in
                // A PIN error after the login concerns the new PIN, whatever the module reports.
                try session.setPIN(from: old, to: new)
            }
        } catch {
            guard error.function == "C_Login", error.returnValue == .pinExpired else { throw error }
            try await withSession { [login] (session) throws(CryptokiError) in
                login.forget()
                try session.logout()
                try session.setPIN(from: old, to: new)
            }
            try await withLogin(.user, new) { (_) throws(CryptokiError) in }
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
}

extension Module {
    /// Replaces a timeout by `tokenAbsent` if the card is no longer in its reader.
    ///
    /// - Parameter reader: Empty if it is not known.
    func recognizingRemoval(_ error: CryptokiError, reader: String = "") async -> CryptokiError {
        guard error.kind == .timedOut, profile.hasCards, await CardReset.findsNoCard(in: reader)
        else { return error }
        return CryptokiError(
            .tokenAbsent, function: error.function,
            reason: "the token was removed, and the module did not return")
    }
}

/// Identifies a token after it was removed and plugged in again, in any slot.
struct TokenIdentity: Hashable, Sendable {
    let texts: TokenTexts
    /// Whether several slots show this serial number. OpenSC has one slot for each PIN of a card.
    let sharesSerial: Bool
    /// Whether the label of the same token may change: OpenSC shows the subject of a certificate.
    let hasFixedLabel: Bool

    /// - Parameter all: The tokens in all slots of the module.
    init(_ token: TokenInformation, among all: [TokenInformation] = [], in profile: ModuleProfile) {
        texts = token.texts
        let hasSerial = texts.hasSerial
        sharesSerial = hasSerial && all.count { $0.texts.isSameDevice(as: token.texts) } > 1
        hasFixedLabel = profile.family != .opensc || !hasSerial || sharesSerial
    }

    func matches(_ token: TokenInformation) -> Bool {
        texts.isSameDevice(as: token.texts) && (!hasFixedLabel || texts.label == token.texts.label)
    }

    static func == (left: TokenIdentity, right: TokenIdentity) -> Bool {
        left.texts.isSameDevice(as: right.texts) && left.fixedLabel == right.fixedLabel
            && left.sharesSerial == right.sharesSerial
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(texts.serial)
        hasher.combine(fixedLabel)
    }

    var fixedLabel: TokenText? { hasFixedLabel ? texts.label : nil }

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

extension CryptokiError {
    /// Names each token with its label, which tells the slots of one card apart. No URI tells tokens
    /// with the same texts in one module apart.
    static func ambiguous(_ tokens: [(information: TokenInformation, modulePath: String)])
        -> CryptokiError
    {
        let names = tokens.map { "“\($0.label)” (serial \($0.serial)) in \($1)" }
        let isDistinct =
            Set(tokens.map { [$0.information.texts: $0.modulePath] }).count == tokens.count
        return CryptokiError(
            .tokenAmbiguous,
            reason: "\(tokens.count) tokens match the URI: \(names.joined(separator: ", "))",
            recovery: isDistinct
                ? nil
                : Recovery(
                    "Some of them have the same label, serial number, model and manufacturer: disconnect all but one of these.",
                    .listTokens))
    }
}

extension TokenIdentity: CustomStringConvertible {
    /// For example `“latchkey” (serial 0123456789abcdef)`.
    var description: String {
        let name = (fixedLabel ?? texts.model).text
        let serial = texts.serial.text
        return serial.isEmpty ? "“\(name)”" : "“\(name)” (serial \(serial))"
    }
}
