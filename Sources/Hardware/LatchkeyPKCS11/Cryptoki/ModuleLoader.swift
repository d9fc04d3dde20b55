internal import CPKCS11
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Loads one module on a separate thread, once, and again after a failure.
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
        do throws(CryptokiError) {
            do throws(CryptokiError) {
                return try await load(within: options.deadlines.load)
            } catch {
                // The reset of a card by another program can block C_Initialize of OpenSC 0.23
                // forever, and a slow card can delay it. The process is killed, and loaded again.
                guard error.kind == .timedOut, error.function == "C_Initialize",
                    process.withLock({ $0 }) != nil
                else { throw error }
                return try await load(within: options.deadlines.load * 3)
            }
        } catch {
            // A module that hangs while it is loaded can't be used at all; that is more specific
            // than a timeout.
            guard error.kind == .timedOut else { throw error }
            throw .hanging(path, in: error.function)
        }
    }

    private func load(within limit: Duration) async throws(CryptokiError) -> Module {
        let thread = thread
        return try await thread.run { () throws(CryptokiError) in
            if let module = self.loaded.withLock({ $0 }) { return module }
            let module = try self.load(on: thread, within: limit)
            self.loaded.withLock { $0 = module }
            return module
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

    private func load(on thread: TokenThread, within limit: Duration) throws(CryptokiError)
        -> Module
    {
        try SharedObject.check(path)
        guard path != SharedObject.p11Kit else { throw .proxyModule }
        let isAlwaysIsolated = options.isolation == .always
        var failure: CryptokiError?
        // A module that may need isolation is not initialized in this process, where a hanging call
        // can't be ended.
        if isAlwaysIsolated
            || options.isolation == .automatic && SharedObject.mayNeedIsolation(path)
        {
            do throws(CryptokiError) {
                let module = try loadIsolated(on: thread, within: limit)
                if isAlwaysIsolated || module.profile.isolatesByDefault { return module }
                module.finalize(by: module.caller(on: thread, deadlines: options.deadlines))
            } catch {
                guard !isAlwaysIsolated, error.kind == .module(.notIsolated) else { throw error }
                failure = error
            }
            process.withLock { $0 = nil }
        }
        var functions = try thread.watch.during("dlopen", within: options.deadlines.load) {
            () throws(CryptokiError) in
            try SharedObject.open(path)
            return try Self.functionList(of: path)
        }
        functions.parameters = ConfiguredModules().parameters(ofFile: path)
        let module = try start(functions, in: nil, on: thread, within: limit)
        if let failure, module.profile.isolatesByDefault {
            functions.finalize(thread.watch, within: options.deadlines.load)
            throw failure
        }
        return module
    }

    private func loadIsolated(on thread: TokenThread, within limit: Duration)
        throws(CryptokiError) -> Module
    {
        let process = try ModuleProcess(module: path, environment: options.environment)
        self.process.withLock { $0 = process }
        var functions = try thread.watch.during("C_GetFunctionList", within: options.deadlines.load)
        {
            () throws(CryptokiError) in
            try process.withAddressInEnvironment { () throws(CryptokiError) in
                try Self.functionList(of: ModuleProcess.clientModule)
            }
        }
        // The process passes them on to the module.
        functions.parameters = ConfiguredModules().parameters(ofFile: path)
        return try start(functions, in: process, on: thread, within: limit)
    }

    private static func functionList(of path: String) throws(CryptokiError) -> FunctionList {
        guard let pointer = p11_kit_module_load(path, 0) else {
            let text = p11_kit_message().map { String(cString: $0) } ?? "p11-kit reports no cause"
            throw CryptokiError(
                .module(.noFunctions), function: "C_GetFunctionList",
                reason: "\(path) provides no functions: \(text)")
        }
        return FunctionList(pointer: pointer)
    }

    private func start(
        _ functions: FunctionList, in process: ModuleProcess?, on thread: TokenThread,
        within limit: Duration
    ) throws(CryptokiError) -> Module {
        let isThreadSafe: Bool
        do throws(CryptokiError) {
            isThreadSafe = try Self.initialize(
                functions, in: process, watch: thread.watch, deadline: limit)
        } catch {
            throw ModuleFiles(of: path, options: options)?
                .obstacle(to: error.function, serial: nil) ?? error
        }
        var info = CK_INFO()
        let value = thread.watch.during("C_GetInfo", within: options.deadlines.data) {
            functions.pointer.pointee.C_GetInfo?(&info)
        }
        let answer = value.map { ReturnValue(rawValue: $0) } ?? .functionNotSupported
        // A module without the function is one of no known maker.
        guard answer == .ok || answer == .functionNotSupported else {
            throw CryptokiError(
                .module(.initializeFailed(answer)), function: "C_GetInfo",
                reason: "\(path) answered \(answer)")
        }
        return Module(
            path: path, information: ModuleInformation(info), process: process, thread: thread,
            isThreadSafe: isThreadSafe, options: options, functions: functions)
    }

    /// Initializes a module for use from several threads, or from one if it can't lock.
    ///
    /// - Parameter isThreadSafe: The result of an earlier call.
    /// - Returns: Whether it may be called from several threads at once.
    @discardableResult
    static func initialize(
        _ functions: FunctionList, in process: ModuleProcess?, watch: CallWatch, deadline: Duration,
        isThreadSafe: Bool = true
    ) throws(CryptokiError) -> Bool {
        try process?.prepare()
        defer { process?.withdraw() }
        let search = CardSearch.begun()
        defer { withExtendedLifetime(search) {} }
        var value =
            isThreadSafe
            ? functions.initialize(CK_FLAGS(CKF_OS_LOCKING_OK), watch, within: deadline) : .cantLock
        let mustSerialize = value == .cantLock
        if mustSerialize { value = functions.initialize(0, watch, within: deadline) }
        guard value == .ok || value == .cryptokiAlreadyInitialized else {
            if let complaint = process?.complaint {
                throw CryptokiError(
                    .module(.notIsolated), function: "C_Initialize", reason: complaint)
            }
            throw CryptokiError(
                .module(.initializeFailed(value)), function: "C_Initialize",
                reason: "the module answered \(value)")
        }
        return !mustSerialize
    }
}

extension CryptokiError {
    static var proxyModule: CryptokiError {
        CryptokiError(
            .module(.proxy),
            reason:
                "p11-kit-proxy.so shows the modules that p11-kit configures, and p11-kit refuses to load it as a module"
        )
    }

    /// The module did not return from a function while it was loaded. If several readers have a
    /// card, one that is not in use may be the cause.
    static func hanging(_ path: String, in function: String?) -> CryptokiError {
        let readers = CardReset.readersWithCards()
        return CryptokiError(
            .module(.hanging), function: function,
            reason: "\(path) did not return from \(function ?? "being loaded")",
            recovery: readers.count > 1
                ? Recovery(
                    "Remove the cards that you do not need: one of them may be slow or fail "
                        + "(\(readers.joined(separator: ", "))).") : nil)
    }
}
