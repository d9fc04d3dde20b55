internal import CPKCS11
internal import Glibc
internal import LatchkeyPlatform
internal import Synchronization

/// A PKCS#11 module, loaded once per process for all its tokens.
///
/// Its functions come from p11-kit, which counts initializations. If other code initialized the
/// module before, p11-kit uses it and never finalizes it. A module is never unloaded, and only
/// finalized to be initialized again: doing so from `deinit` or at exit crashes programs.
final class Module: Sendable {
    /// The file, with symbolic links resolved.
    let path: String
    let information: ModuleInformation
    let profile: ModuleProfile
    /// The separate process of an isolated module.
    let process: ModuleProcess?
    /// The thread for calls that concern the whole module, and for all calls if the module is not
    /// thread-safe.
    let thread: TokenThread
    let isThreadSafe: Bool
    let options: TokenOptions
    private let functions: FunctionList
    private let state: Mutex<ModuleState>
    private let seen = Mutex<Set<TokenIdentity>>([])
    /// Whether key agreement reaches the module; nil if it was not tested yet.
    let supportsKeyAgreement = Mutex<Bool?>(nil)
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

    /// The files in which it keeps its tokens, if the module is of a kind with such files.
    var files: ModuleFiles? { ModuleFiles(of: path, options: options) }

    /// Whether it runs in a separate process.
    var isIsolated: Bool { process != nil }

    /// Counts initializations. Slots, sessions and handles are valid within one epoch; code that
    /// keeps other state of the module, such as a libp11 context, abandons it when the epoch has
    /// changed.
    var epoch: Int { state.withLock { $0.epoch } }

    /// Records the visible tokens.
    ///
    /// - Returns: Whether one was removed and another one inserted since the last call.
    func replaceSeen(_ tokens: Set<TokenIdentity>) -> Bool {
        seen.withLock { seen in
            defer { seen = tokens }
            return !seen.subtracting(tokens).isEmpty && !tokens.subtracting(seen).isEmpty
        }
    }
}

extension Module {
    func caller(on thread: TokenThread, deadlines: TokenOptions.Deadlines) -> Caller {
        Caller(module: self, functions: functions, watch: thread.watch, deadlines: deadlines)
    }

    /// Waits while another thread initializes the module, and throws if the module hangs.
    ///
    /// - Parameters:
    ///   - limit: The maximum wait. The thread that initializes the module has its own deadlines.
    ///   - epoch: The epoch of the call; nil for a call that needs no session.
    /// - Returns: Whether the call may be made; false if its epoch is over.
    func beginCall(waitingAtMost limit: Duration, in epoch: Int? = nil) throws(CryptokiError)
        -> Bool
    {
        try UnlockedCards.shared.beginCall()
        var isBegun = false
        defer { if !isBegun { UnlockedCards.shared.endCall() } }
        let deadline = ContinuousClock.now + limit
        while true {
            switch state.withLock({ $0.beginCall(in: epoch) }) {
            case .proceed:
                isBegun = true
                return true
            case .outdated: return false
            case .refuse(let function): throw .unresponsive(by: function)
            case .wait:
                guard ContinuousClock.now < deadline else {
                    throw CryptokiError(
                        .timedOut, function: "C_Initialize",
                        reason: "the module is still being restarted")
                }
                usleep(1000)
            }
        }
    }

    func endCall() {
        state.withLock { $0.endCall() }
        UnlockedCards.shared.endCall()
    }

    /// Handles a call that exceeded its deadline. Returns a closure that kills the module's
    /// process, so that the call returns. A module in this process is never called again.
    func expire(_ function: String) -> (@Sendable () -> Void)? {
        guard let process else {
            state.withLock { $0.wedge(function) }
            return nil
        }
        state.withLock { $0.needsInitialization = true }
        return { process.kill() }
    }

    /// Whether the module must be initialized before its next use.
    var needsInitialization: Bool { state.withLock { $0.needsInitialization } }

    /// Finalizes and initializes the module, unless another thread did so since `epoch`. This ends
    /// all sessions.
    ///
    /// - Throws: `returned(.deviceError)` if another token is in use for too long; the error of
    ///   `C_Initialize`.
    func reinitialize(after epoch: Int, by caller: Caller) throws(CryptokiError) {
        let deadline = ContinuousClock.now + caller.deadlines.data
        while true {
            switch state.withLock({ $0.beginInitialization(after: epoch) }) {
            case .proceed:
                defer { state.withLock { $0.endInitialization() } }
                return try initializeAgain(by: caller)
            case .outdated, .refuse: return
            case .wait:
                guard ContinuousClock.now < deadline else {
                    throw CryptokiError(
                        .returned(.deviceError), function: "C_Finalize",
                        reason: "the module must be restarted, and another token is in use")
                }
                usleep(1000)
            }
        }
    }

    /// Finalizes the module, so that it forgets sessions, logins and PINs of all its tokens. The
    /// next use initializes it again, also if it could not be finalized now because another token
    /// is in use.
    func finalize(by caller: Caller) {
        let isFree = state.withLock { state in
            state.needsInitialization = true
            if case .proceed = state.beginInitialization(after: state.epoch) { return true }
            return false
        }
        guard isFree else { return }
        functions.finalize(caller.watch, within: caller.deadlines.load)
        state.withLock { state in
            state.endEpoch()
            state.endInitialization()
        }
    }

    private func initializeAgain(by caller: Caller) throws(CryptokiError) {
        functions.finalize(caller.watch, within: caller.deadlines.load)
        try ModuleLoader.initialize(
            functions, in: process, watch: caller.watch, deadline: caller.deadlines.load,
            isThreadSafe: isThreadSafe)
        state.withLock { $0.beginEpoch() }
    }
}

extension Module {
    struct WeakToken {
        weak var token: Token?
    }

    /// The shared object of a token, so that it has one thread and one session in this process.
    func token(
        _ information: TokenInformation, _ identity: TokenIdentity, options: TokenOptions
    ) throws(CryptokiError) -> Token {
        if let token = tokens.withLock({ $0[identity]?.token }) { return token }
        let uri = try TokenURI(naming: information, modulePath: path)
        let new = Token(
            module: self, information: information, identity: identity, uri: uri, options: options)
        return tokens.withLock { tokens in
            if let token = tokens[identity]?.token { return token }
            tokens[identity] = WeakToken(token: new)
            return new
        }
    }
}

/// Decides whether calls into a module may be made.
struct ModuleState {
    enum Decision {
        case proceed, wait
        /// The module was restarted since the given epoch.
        case outdated
        /// The module hangs in that function.
        case refuse(function: String)
    }

    private(set) var epoch = 1
    /// Whether the module must be initialized before its next use, because it was finalized or its
    /// process was killed.
    var needsInitialization = false
    private var hanging: String?
    private var calls = 0
    private var isInitializing = false

    mutating func beginCall(in known: Int?) -> Decision {
        if let hanging { return .refuse(function: hanging) }
        if isInitializing { return .wait }
        if let known, known != epoch { return .outdated }
        calls += 1
        return .proceed
    }

    mutating func endCall() { calls -= 1 }

    mutating func wedge(_ function: String) { hanging = hanging ?? function }

    mutating func beginInitialization(after known: Int) -> Decision {
        if isInitializing { return .wait }
        if epoch != known { return .outdated }
        if calls > 0 { return .wait }
        isInitializing = true
        return .proceed
    }

    mutating func endInitialization() { isInitializing = false }

    /// Ends the epoch. The next use must initialize the module.
    mutating func endEpoch() {
        epoch += 1
        needsInitialization = true
    }

    mutating func beginEpoch() {
        epoch += 1
        needsInitialization = false
    }
}

/// A module's functions, as p11-kit manages them.
///
/// Safe to share: the list is written once before its first use, and never freed. ``Caller`` and
/// ``Module`` decide which thread may call a function.
struct FunctionList: @unchecked Sendable {
    let pointer: UnsafeMutablePointer<CK_FUNCTION_LIST>
    /// The text for `C_Initialize` (``ConfiguredModules/Entry/parameters``).
    var parameters: String?

    /// `C_Initialize`.
    func initialize(_ flags: CK_FLAGS, _ watch: CallWatch, within limit: Duration) -> ReturnValue {
        var arguments = latchkey_initialize_arguments()
        arguments.standard.flags = flags
        let value = watch.during("C_Initialize", within: limit) { () -> CK_RV? in
            guard var text = parameters.map({ Array($0.utf8CString) }) else {
                return pointer.pointee.C_Initialize?(&arguments)
            }
            return text.withUnsafeMutableBytes { bytes in
                arguments.standard.pReserved = bytes.baseAddress
                return pointer.pointee.C_Initialize?(&arguments)
            }
        }
        return value.map { ReturnValue(rawValue: $0) } ?? .functionNotSupported
    }

    /// `C_Finalize`. Its answer does not matter: the module is initialized again, or not used any
    /// more.
    func finalize(_ watch: CallWatch, within limit: Duration) {
        _ = watch.during("C_Finalize", within: limit) { pointer.pointee.C_Finalize?(nil) }
    }
}

// The modules of this process by their files, so that two parts of a program never initialize the
// same file.
extension Module {
    /// Identifies a module: a file that is isolated with another environment has other tokens.
    private struct Key: Hashable {
        let path: String
        let isolation: TokenOptions.Isolation
        let environment: [String: String]
    }

    private static let loaders = Mutex<[Key: ModuleLoader]>([:])

    /// Loads the module in a file. A relative path is in p11-kit's module directory.
    ///
    /// - Throws: ``CryptokiError``; `module` with the cause, `timedOut`, `unresponsive`.
    static func load(_ path: String, options: TokenOptions = TokenOptions())
        async throws(CryptokiError) -> Module
    {
        let file = try resolve(path)
        let key = Key(
            path: file, isolation: options.isolation,
            environment: options.isolation == .never ? [:] : options.environment)
        let loader = loaders.withLock { loaders in
            if let loader = loaders[key] { return loader }
            let loader = ModuleLoader(path: file, options: options)
            loaders[key] = loader
            return loader
        }
        return try await loader.module()
    }

    /// The files of several paths, each once. A path that can't be resolved stays as it is, and
    /// loading it fails with the cause.
    static func files(_ paths: [String]) -> [String] {
        var known: Set<String> = []
        return paths.map { (try? resolve($0)) ?? $0 }.filter { known.insert($0).inserted }
    }

    /// The absolute path without symbolic links. A relative path is in p11-kit's module directory.
    static func resolve(_ path: String) throws(CryptokiError) -> String {
        // Never the working directory, which another user may control.
        let candidate = path.hasPrefix("/") ? path : "\(ConfiguredModules.moduleDirectory)/\(path)"
        guard let resolved = realpath(candidate, nil) else {
            throw CryptokiError(
                .module(.missing),
                reason: "there is no module \(candidate): \(SystemError.last)")
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
