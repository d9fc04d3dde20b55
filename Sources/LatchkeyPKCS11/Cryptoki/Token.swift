/// A token, found once by its URI and then identified by manufacturer, model, serial number and label.
///
/// ``withSession(isExclusive:_:)`` runs all work on the token's thread with one session that stays open, and follows ``RecoveryPolicy`` if the
/// session or the token is lost.
final class Token: Sendable {
    /// The module that the token was found in.
    let module: Module
    /// The token's information when it was found. ``Session/tokenInformation()`` reads the current one.
    let information: TokenInformation
    /// A URI that names only this token: `pkcs11:…?module-path=…`.
    let uri: TokenURI
    private let thread: TokenThread
    private let connection: Connection
    let login: LoginReuse
    private let lockLimit: Duration

    init(module: Module, information: TokenInformation, uri: TokenURI, options: TokenOptions) {
        self.module = module
        self.information = information
        self.uri = uri
        let thread = module.isThreadSafe ? TokenThread { module.expire($0) } : module.thread
        self.thread = thread
        let login = LoginReuse.of(module, uri)
        self.login = login
        // While another process has the lock, it may generate a key and wait for the touch of the self-test.
        lockLimit = options.deadlines.person * 2
        connection = Connection(
            call: module.caller(on: thread, deadlines: options.deadlines), thread: thread, login: login,
            identity: TokenIdentity(information, in: module.profile), settlingTime: options.settlingTime)
    }

    deinit {
        thread.enqueue { [connection] in connection.close() }
    }

    /// Finds the one token that matches a URI, in the module that the URI names, or in all modules that p11-kit configures.
    ///
    /// - Throws: ``CryptokiError``; `tokenAbsent`, `noReaders`, `tokenAmbiguous` (the reason names the tokens with their serial
    ///   numbers), `module`, `timedOut`, `unresponsive`, `cancelled`.
    static func find(_ uri: TokenURI, options: TokenOptions = TokenOptions()) async throws(CryptokiError) -> Token {
        let paths = try uri.modulePaths()
        var tokens: [Token] = []
        var errors: [(path: String, error: CryptokiError)] = []
        for path in paths {
            do throws(CryptokiError) {
                let module = try await Module.load(path, options: options)
                tokens += try await module.tokens(options: options) { uri.matches($0) }
            } catch {
                errors.append((path, error))
            }
        }
        if tokens.count > 1 {
            let names = tokens.map {
                "“\($0.information.label)” (serial \($0.information.serial)) in \($0.module.path)"
            }
            throw CryptokiError(
                .tokenAmbiguous, reason: "\(tokens.count) tokens match the URI: \(names.joined(separator: ", "))")
        }
        if let token = tokens.first { return token }
        // With several modules the failures may have nothing to do with the token.
        if paths.count == 1, let (_, error) = errors.first { throw error }
        let causes = errors.map { "; the module \($0.path) cannot be used: \($0.error)" }.joined()
        throw CryptokiError(.tokenAbsent, reason: "no token matches \(uri)\(causes)")
    }

    /// Runs `body` on the token's thread with its session.
    ///
    /// If a call fails because the session, handles or the token were lost, ``RecoveryPolicy`` is followed and `body` runs
    /// **again from its start**: it must be a whole operation that may be repeated (log in, find, sign), and must not keep a
    /// handle from an earlier run. It never runs again after the token did not accept a PIN.
    ///
    /// - Parameter isExclusive: Whether `body` occupies a free slot or ID. No other process of this user does so at the same
    ///   time (``TokenLock``), and `body` sees the current objects: a module that caches them is restarted. Other programs do
    ///   not take the lock. PKCS#11 has no transactions, so an object that one of them creates between the module's reading of
    ///   the token and `C_GenerateKeyPair` is not seen.
    /// - Throws: ``CryptokiError``, from `body` or from the recovery: `tokenAbsent`, `timedOut`, `unresponsive`,
    ///   `loginNeeded` (log in again and repeat), `cancelled`; `locked` if exclusive.
    func withSession<R: Sendable>(
        isExclusive: Bool = false, _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        do {
            return try await thread.run {
                [connection, thread, lockLimit, profile = module.profile] () throws(CryptokiError) in
                guard isExclusive else { return try connection.withRecovery(body) }
                let lock = try TokenLock(connection.identity, waitingAtMost: lockLimit) { thread.isWorkAbandoned }
                defer { withExtendedLifetime(lock) {} }
                if profile.cachesStaleState { try connection.restartModule() }
                return try connection.withRecovery(body)
            }
        } catch {
            throw await module.recognizingRemoval(error, reader: connection.reader)
        }
    }

    /// Runs `body` like ``withSession(isExclusive:_:)``, logged in with a new proof, and logs out. Ends a kept login.
    ///
    /// Logs out before it sends the proof: a token that considers the user logged in does not check the PIN. A failure
    /// of the logout afterwards is safe too: no operation reuses a login that ``LoginReuse`` does not confirm.
    ///
    /// - Parameter window: How long the login is kept after `body` has succeeded; nil to log out at once.
    func withLogin<R: Sendable>(
        _ role: LoginRole, _ proof: LoginProof, keptFor window: ReuseWindow? = nil, isExclusive: Bool = false,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        try await withSession(isExclusive: isExclusive) { [self] (session) throws(CryptokiError) in
            login.forget()
            try session.logout()
            try session.login(role, with: proof)
            let result = Result { () throws(CryptokiError) in try body(session) }
            let isKept = if case .success = result, let window { login.keep(for: window, on: self) } else { false }
            if !isKept { try? session.logout() }
            return try result.get()
        }
    }

    /// Erases the token and sets its label and the security officer's PIN. Nothing is repeated.
    ///
    /// - Parameters:
    ///   - confirmed: The state of the token that the user confirmed. The token must still be in this state.
    ///   - label: 1 to 32 bytes.
    func initialize(
        expecting confirmed: TokenInformation, label: String, securityOfficer proof: LoginProof
    ) async throws(CryptokiError) {
        try await thread.run { [connection, login] () throws(CryptokiError) in
            login.forget()
            try connection.initializeToken(confirmed, label: label, securityOfficer: proof)
        }
    }

    /// Finalizes and initializes the module, so that it reads the token's state again. Ends all its sessions and logins.
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
    /// nil if the label of the same token may change: OpenSC shows the subject of a certificate.
    let label: String?

    init(_ token: TokenInformation, in profile: ModuleProfile) {
        manufacturer = token.manufacturer
        model = token.model
        serial = token.serial
        let tellsApart = token.serial.contains { $0 != "0" }
        label = profile.family == .opensc && tellsApart ? nil : token.label
    }

    /// Returns the token or slot that was found for this identity.
    ///
    /// - Throws: `tokenAbsent` if none was found, `tokenAmbiguous` if several were.
    func only<Found>(of found: [Found]) throws(CryptokiError) -> Found {
        guard let first = found.first else {
            throw CryptokiError(.tokenAbsent, reason: "the token \(self) is not in any reader")
        }
        guard found.count == 1 else {
            throw CryptokiError(.tokenAmbiguous, reason: "there is more than one token \(self)")
        }
        return first
    }
}

extension TokenIdentity: CustomStringConvertible {
    /// For example `“latchkey” (serial 0123456789abcdef)`.
    var description: String {
        let name = label ?? model
        return serial.isEmpty ? "“\(name)”" : "“\(name)” (serial \(serial))"
    }
}
