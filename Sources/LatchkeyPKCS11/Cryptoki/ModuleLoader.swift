internal import CPKCS11
internal import Glibc
internal import Synchronization

/// Loads one module on a thread of its own, once, and again after a failure that may pass.
final class ModuleLoader: Sendable {
    private let path: String
    private let options: TokenOptions
    private let process: Mutex<ModuleProcess?> = Mutex(nil)
    private let loaded = Mutex<Module?>(nil)
    private let ownThread = Mutex<TokenThread?>(nil)

    init(path: String, options: TokenOptions) {
        self.path = path
        self.options = options
    }

    func module() async throws(CryptokiError) -> Module {
        if let module = loaded.withLock({ $0 }) { return module }
        let thread = thread
        do {
            return try await thread.run { self.loadOnThread(thread) }
        } catch {
            // A module that hangs while it is loaded can't be used at all, which says more than that a call timed out.
            guard error.kind == .timedOut else { throw error }
            throw CryptokiError(
                .module(.hanging), function: error.function,
                reason: "\(path) did not come back from \(error.function ?? "being loaded")")
        }
    }

    private var thread: TokenThread {
        ownThread.withLock { own in
            if let own { return own }
            let new = TokenThread { [weak self] function in self?.expire(function) }
            own = new
            return new
        }
    }

    private func expire(_ function: String) -> (@Sendable () -> Void)? {
        if let module = loaded.withLock({ $0 }) { return module.expire(function) }
        guard let process = process.withLock({ $0 }) else { return nil }
        return { process.kill() }
    }

    private func loadOnThread(_ thread: TokenThread) -> Result<Module, CryptokiError> {
        if let module = loaded.withLock({ $0 }) { return .success(module) }
        do throws(CryptokiError) {
            let module = try load(on: thread)
            loaded.withLock { $0 = module }
            return .success(module)
        } catch {
            return .failure(error)
        }
    }

    private func load(on thread: TokenThread) throws(CryptokiError) -> Module {
        try SharedObject.check(path)
        guard options.isolation != .always else { return try loadIsolated(on: thread) }
        let functions = try loadInProcess(watch: thread.watch)
        let module = try start(functions, in: nil, on: thread)
        guard options.isolation == .automatic, module.profile.isolatesByDefault else { return module }
        // It had to be asked who it is. From here on only its process uses it.
        thread.watch.begin("C_Finalize", within: options.deadlines.load)
        _ = functions.pointer.pointee.C_Finalize?(nil)
        thread.watch.end()
        return try loadIsolated(on: thread)
    }

    private func loadInProcess(watch: CallWatch) throws(CryptokiError) -> FunctionList {
        watch.begin("dlopen", within: options.deadlines.load)
        defer { watch.end() }
        try SharedObject.open(path)
        return try Self.functionList(of: path)
    }

    private func loadIsolated(on thread: TokenThread) throws(CryptokiError) -> Module {
        let process = try ModuleProcess(module: path, environment: options.environment)
        self.process.withLock { $0 = process }
        thread.watch.begin("C_GetFunctionList", within: options.deadlines.load)
        defer { thread.watch.end() }
        let functions = try process.withAddressInEnvironment { () throws(CryptokiError) in
            try Self.functionList(of: ModuleProcess.clientModule)
        }
        return try start(functions, in: process, on: thread)
    }

    private static func functionList(of path: String) throws(CryptokiError) -> FunctionList {
        guard let pointer = p11_kit_module_load(path, 0) else {
            let text = p11_kit_message().map { String(cString: $0) } ?? "p11-kit does not say why"
            throw CryptokiError(.module(.unloadable), reason: "p11-kit can't load \(path): \(text)")
        }
        return FunctionList(pointer: pointer)
    }

    private func start(
        _ functions: FunctionList, in process: ModuleProcess?, on thread: TokenThread
    ) throws(CryptokiError) -> Module {
        let isThreadSafe = try Self.initialize(
            functions, in: process, watch: thread.watch, deadline: options.deadlines.load)
        var info = CK_INFO()
        thread.watch.begin("C_GetInfo", within: options.deadlines.data)
        let value = functions.pointer.pointee.C_GetInfo?(&info)
        thread.watch.end()
        guard value == CKR_OK else {
            let value = ReturnValue(rawValue: value ?? ReturnValue.functionNotSupported.rawValue)
            throw CryptokiError(
                .module(.initializeFailed(value)), function: "C_GetInfo", reason: "\(path) answered \(value)")
        }
        return Module(
            path: path, information: ModuleInformation(info), process: process, thread: thread,
            isThreadSafe: isThreadSafe, options: options, functions: functions)
    }

    /// Initialises a module for use from several threads, or from one where it can't lock.
    ///
    /// - Parameter isThreadSafe: what it turned out to be when it was initialised before.
    /// - Returns: whether it may be called from several threads at once.
    @discardableResult
    static func initialize(
        _ functions: FunctionList, in process: ModuleProcess?, watch: CallWatch, deadline: Duration,
        isThreadSafe: Bool = true
    ) throws(CryptokiError) -> Bool {
        try process?.prepare()
        defer { process?.withdraw() }
        var value = ReturnValue.cantLock
        if isThreadSafe {
            value = call(functions, flags: UInt(CKF_OS_LOCKING_OK), watch: watch, deadline: deadline)
        }
        let mustSerialize = value == .cantLock
        if mustSerialize {
            value = call(functions, flags: 0, watch: watch, deadline: deadline)
        }
        guard value == .ok || value == .cryptokiAlreadyInitialized else {
            if let complaint = process?.complaint {
                throw CryptokiError(.module(.notIsolated), function: "C_Initialize", reason: complaint)
            }
            throw CryptokiError(
                .module(.initializeFailed(value)), function: "C_Initialize", reason: "the module answered \(value)")
        }
        return !mustSerialize
    }

    private static func call(
        _ functions: FunctionList, flags: UInt, watch: CallWatch, deadline: Duration
    ) -> ReturnValue {
        var arguments = CK_C_INITIALIZE_ARGS()
        arguments.flags = flags
        watch.begin("C_Initialize", within: deadline)
        defer { watch.end() }
        let value = functions.pointer.pointee.C_Initialize?(&arguments)
        return ReturnValue(rawValue: value ?? ReturnValue.functionNotSupported.rawValue)
    }
}
