/// One token: found once by its URI, then known by manufacturer, model, serial and label.
///
/// All work goes through ``perform(_:)``, which runs it on the token's own thread with the one session that is kept
/// open, and climbs the recovery ladder when the session or the token is lost.
final class Token: Sendable {
    /// The module that the token was found in.
    let module: Module
    /// What the token said of itself when it was found. ``Session/tokenInformation()`` says what holds now.
    let information: TokenInformation
    /// A URI that names this token and no other: `pkcs11:…?module-path=…`.
    let uri: TokenURI
    private let thread: TokenThread
    private let connection: Connection
    /// How long its logins serve.
    let login: LoginKeeper
    private let patience: Duration

    init(module: Module, information: TokenInformation, uri: TokenURI, options: TokenOptions) {
        self.module = module
        self.information = information
        self.uri = uri
        let thread = module.isThreadSafe ? TokenThread { module.expire($0) } : module.thread
        self.thread = thread
        let login = LoginKeeper.of(module, uri)
        self.login = login
        // What another process may do while it has the lock: generate, and wait for the touch that tests the key.
        patience = options.deadlines.person * 2
        connection = Connection(
            call: module.caller(on: thread, deadlines: options.deadlines), thread: thread, login: login,
            identity: TokenIdentity(information, in: module.profile), settlingTime: options.settlingTime)
    }

    deinit {
        thread.enqueue { [connection] in connection.close() }
    }

    var profile: ModuleProfile { module.profile }

    /// Finds the one token that fits a URI, in the module that the URI names, or in all that p11-kit is configured with.
    ///
    /// - Throws: ``CryptokiError``; `tokenAbsent`, `noReaders`, `tokenAmbiguous` (the reason names both with serials),
    ///   `module`, `timedOut`, `wedged`, `cancelled`.
    static func find(_ uri: TokenURI, options: TokenOptions = TokenOptions()) async throws(CryptokiError) -> Token {
        let paths = try uri.modulePaths()
        var tokens: [Token] = []
        var errors: [CryptokiError] = []
        for path in paths {
            do throws(CryptokiError) {
                let module = try await Module.load(path, options: options)
                tokens += try await module.tokens(options: options) { uri.matches($0) }
            } catch {
                errors.append(error)
            }
        }
        if tokens.count > 1 {
            let names = tokens.map {
                "“\($0.information.label)” (serial \($0.information.serial)) in \($0.module.path)"
            }
            throw CryptokiError(
                .tokenAmbiguous, reason: "\(tokens.count) tokens fit the URI: \(names.joined(separator: ", "))")
        }
        if let token = tokens.first { return token }
        // Of one module all is known; of several the failures may have nothing to do with the token.
        if paths.count == 1, let error = errors.first { throw error }
        let causes = errors.map { "; \($0)" }.joined()
        throw CryptokiError(.tokenAbsent, reason: "no token fits \(uri)\(causes)")
    }

    /// Runs `body` on the token's thread.
    ///
    /// When a call in it fails because session, handles or token were lost, the ladder of section 7.3 is climbed and
    /// `body` runs **again from its start**: it must be a whole operation that may be repeated (log in, find, sign),
    /// and keep no handle from an earlier run. A PIN that was shown and not accepted,
    /// whatever the token answered, never makes it run again.
    ///
    /// - Throws: ``CryptokiError``, what `body` throws or what ended the ladder: `tokenAbsent`, `timedOut`, `wedged`,
    ///   `loginNeeded` (log in again and repeat), `cancelled`.
    func perform<R: Sendable>(
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        try await thread.run { [connection] in
            Result { () throws(CryptokiError) in try connection.perform(body) }
        }
    }

    /// The same for work that takes a free place on the token: no other process of this user does so at the same time
    /// (``TokenLock``), and `body` sees what is on the token now. A module that keeps an old list of objects is restarted.
    ///
    /// Other programs don't take the lock. PKCS#11 has no transaction, so what one of them writes between the module's
    /// reading of the token and `C_GenerateKeyPair` remains unseen.
    ///
    /// - Throws: as ``perform(_:)``, and `locked`.
    func performExclusively<R: Sendable>(
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        try await thread.run { [connection, thread, patience] in
            Result { () throws(CryptokiError) in
                let lock = try TokenLock(connection.identity, patience: patience) { thread.isWorkAbandoned }
                defer { withExtendedLifetime(lock) {} }
                if connection.seesThePast { try connection.restartModule() }
                return try connection.perform(body)
            }
        }
    }

    /// Runs `body` on the token's thread while no session is open there: for what closes all sessions, or must be done
    /// when there is none. Nothing is repeated. Handles are found anew afterwards.
    ///
    /// - Parameter body: Gets what opens a session, once it wants one.
    func performAlone<R: Sendable>(
        _ body: @escaping @Sendable (_ open: () throws(CryptokiError) -> Session) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        try await thread.run { [connection] in
            Result { () throws(CryptokiError) in try connection.performAlone(body) }
        }
    }

    /// Finalises and initialises the module, so that it forgets what it holds for true. All its sessions and logins end.
    func restartModule() async throws(CryptokiError) {
        try await thread.run { [connection] in
            Result { () throws(CryptokiError) in try connection.restartModule() }
        }
    }
}

extension TokenURI {
    /// The files of the modules that the URI may mean.
    ///
    /// - Throws: `module(.missing)` for a `module-name` that p11-kit is not configured with.
    func modulePaths() throws(CryptokiError) -> [String] {
        if let modulePath { return [modulePath] }
        let configured = ConfiguredModules().entries
        guard let moduleName else { return configured.map(\.path) }
        let named = configured.filter { $0.name == moduleName }
        guard !named.isEmpty else {
            throw CryptokiError(
                .module(.missing), reason: "p11-kit is configured with no module of the name \(moduleName)")
        }
        return named.map(\.path)
    }
}
