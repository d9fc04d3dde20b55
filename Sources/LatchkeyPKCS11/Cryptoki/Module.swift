internal import CPKCS11
internal import Glibc
internal import Synchronization

/// A PKCS#11 module, loaded once in this process however many tokens use it.
///
/// Its functions come from p11-kit, which counts initialisations, adopts a module that somebody else initialised, and
/// then never finalises it. A module is never unloaded, and never finalised except to be initialised again: doing so
/// from `deinit` or at exit crashes programs.
final class Module: Sendable {
    /// The file, with symbolic links resolved.
    let path: String
    let information: ModuleInformation
    let profile: ModuleProfile
    /// The process that it runs in, where it has one of its own.
    let process: ModuleProcess?
    /// For what concerns the module as a whole. All calls are made here when it says that it is not thread-safe.
    let thread: TokenThread
    let isThreadSafe: Bool
    let options: TokenOptions
    private let functions: FunctionList
    private let state: Mutex<ModuleState>
    private let seen = Mutex<Set<TokenIdentity>>([])
    private let agreement = Mutex<Bool?>(nil)
    private let tokens = Mutex<[TokenIdentity: WeakToken]>([:])

    init(
        path: String, information: ModuleInformation, process: ModuleProcess?, thread: TokenThread,
        isThreadSafe: Bool, options: TokenOptions, functions: FunctionList
    ) {
        self.path = path
        self.information = information
        profile = ModuleProfile(for: information)
        self.process = process
        self.thread = thread
        self.isThreadSafe = isThreadSafe
        self.options = options
        self.functions = functions
        state = Mutex(ModuleState())
    }

    /// Whether it runs in a process of its own.
    var isIsolated: Bool { process != nil }

    /// The module in a file. A path without a slash is looked for in p11-kit's module directory.
    ///
    /// - Throws: ``CryptokiError``; `module` with what is wrong with it, `timedOut`, `wedged`.
    static func load(_ path: String, options: TokenOptions = TokenOptions()) async throws(CryptokiError) -> Module {
        try await ModuleRegistry.shared.module(path, options: options)
    }

    /// The same for what can only be done in this process: one that is isolated is loaded here beside.
    static func loadHere(_ path: String, options: TokenOptions) async throws(CryptokiError) -> Module {
        let module = try await load(path, options: options)
        guard module.isIsolated else { return module }
        var options = options
        options.isolation = .never
        return try await load(path, options: options)
    }

    /// Counts re-initialisations: what was obtained from the module (slots, sessions, handles) holds within one epoch.
    /// Whoever keeps something on the side, such as a libp11 context, abandons it when this has changed.
    var epoch: Int { state.withLock { $0.epoch } }

    /// Whether key agreement reaches the module, where that was found out.
    var carriesAgreement: Bool? { agreement.withLock { $0 } }

    /// Notes which tokens there are.
    ///
    /// - Returns: whether one went and another one came since the last time.
    func replaceSeen(_ tokens: Set<TokenIdentity>) -> Bool {
        seen.withLock { seen in
            defer { seen = tokens }
            return !seen.subtracting(tokens).isEmpty && !tokens.subtracting(seen).isEmpty
        }
    }

    func note(carriesAgreement: Bool) { agreement.withLock { $0 = carriesAgreement } }
}

extension Module {
    func caller(on thread: TokenThread, deadlines: TokenOptions.Deadlines) -> Caller {
        Caller(module: self, functions: functions, watch: thread.watch, deadlines: deadlines)
    }

    /// Waits while the module is being initialised anew, and refuses when it hangs.
    ///
    /// - Parameters:
    ///   - patience: How long to wait at most. That it passes says nothing of the module: the thread that initialises it
    ///     has deadlines of its own.
    ///   - epoch: The epoch that the call belongs to, if it belongs to one.
    /// - Returns: Whether the call may be made; false when its epoch is over.
    func beginCall(patience: Duration, in epoch: Int? = nil) throws(CryptokiError) -> Bool {
        try UnlockedCards.shared.beginCall()
        var isBegun = false
        defer { if !isBegun { UnlockedCards.shared.endCall() } }
        let deadline = ContinuousClock.now + patience
        while true {
            switch state.withLock({ $0.beginCall(in: epoch) }) {
            case .proceed:
                isBegun = true
                return true
            case .outdated: return false
            case .refuse(let function): throw .wedged(by: function)
            case .wait:
                guard ContinuousClock.now < deadline else {
                    throw CryptokiError(
                        .timedOut, function: "C_Initialize", reason: "the module is still being started again")
                }
                usleep(1000)
            }
        }
    }

    func endCall() {
        state.withLock { $0.endCall() }
        UnlockedCards.shared.endCall()
    }

    /// What a call that passed its deadline means for the module: its process is to be killed, where it has one, so that
    /// the call comes back; otherwise nothing is called any more.
    func expire(_ function: String) -> (@Sendable () -> Void)? {
        guard let process else {
            state.withLock { $0.wedge(function) }
            return nil
        }
        state.withLock { $0.needsInitialization = true }
        return { process.kill() }
    }

    /// Whether the module's process was killed since it was last initialised.
    var needsInitialization: Bool { state.withLock { $0.needsInitialization } }

    /// Finalises and initialises the module, unless somebody did since the epoch that the caller knows. Everybody's
    /// sessions are gone afterwards.
    ///
    /// - Throws: `returned(.deviceError)` when another token is in use all the while; what `C_Initialize` answers.
    func reinitialize(after epoch: Int, by caller: Caller) throws(CryptokiError) {
        let patience = ContinuousClock.now + caller.deadlines.data
        while true {
            switch state.withLock({ $0.beginInitialization(after: epoch) }) {
            case .proceed:
                defer { state.withLock { $0.endInitialization() } }
                return try initializeAnew(by: caller)
            case .done: return
            case .wait:
                guard ContinuousClock.now < patience else {
                    throw CryptokiError(
                        .returned(.deviceError), function: "C_Finalize",
                        reason: "the module must be started again, and another token is in use")
                }
                usleep(1000)
            }
        }
    }

    /// Finalises the module, so that it forgets sessions, logins and PINs of all its tokens. The next use initialises it
    /// again, also when it could not be finalised because another token is in use.
    func finalize(by caller: Caller) {
        let isFree = state.withLock { state in
            state.needsInitialization = true
            if case .proceed = state.beginInitialization(after: state.epoch) { return true }
            return false
        }
        guard isFree else { return }
        finalizeNow(by: caller)
        state.withLock { state in
            state.endEpoch()
            state.endInitialization()
        }
    }

    private func finalizeNow(by caller: Caller) {
        caller.watch.begin("C_Finalize", within: caller.deadlines.load)
        // Its answer doesn't matter: the module is initialised anew in any case.
        _ = functions.pointer.pointee.C_Finalize?(nil)
        caller.watch.end()
    }

    private func initializeAnew(by caller: Caller) throws(CryptokiError) {
        finalizeNow(by: caller)
        try ModuleLoader.initialize(
            functions, in: process, watch: caller.watch, deadline: caller.deadlines.load,
            isThreadSafe: isThreadSafe)
        state.withLock { $0.beginEpoch() }
    }
}

extension Module {
    private struct WeakToken {
        weak var token: Token?
    }

    /// The one object for a token, so that it has one thread and one session in this process.
    func token(_ information: TokenInformation, make: () throws(CryptokiError) -> Token) throws(CryptokiError) -> Token
    {
        let identity = TokenIdentity(information, in: profile)
        if let token = tokens.withLock({ $0[identity]?.token }) { return token }
        let new = try make()
        return tokens.withLock { tokens in
            if let token = tokens[identity]?.token { return token }
            tokens[identity] = WeakToken(token: new)
            return new
        }
    }
}
