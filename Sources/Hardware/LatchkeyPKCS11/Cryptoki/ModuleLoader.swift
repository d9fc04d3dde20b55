internal import CPKCS11
internal import FoundationEssentials
internal import Glibc
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
        guard options.isolation != .always else {
            return try loadIsolated(on: thread, within: limit)
        }
        // A module that may need isolation is not initialized in this process, where a hanging call
        // can't be ended.
        if options.isolation == .automatic, SharedObject.mayNeedIsolation(path) {
            do throws(CryptokiError) {
                let module = try loadIsolated(on: thread, within: limit)
                if module.profile.isolatesByDefault { return module }
                module.finalize(by: module.caller(on: thread, deadlines: options.deadlines))
            } catch {
                guard error.kind == .module(.notIsolated) else { throw error }
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
        guard options.isolation == .automatic, module.profile.isolatesByDefault else {
            return module
        }
        // Only its description was needed in this process. From now on it runs in a separate one.
        functions.finalize(thread.watch, within: options.deadlines.load)
        return try loadIsolated(on: thread, within: limit)
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
            throw CryptokiError(.module(.unloadable), reason: "p11-kit can't load \(path): \(text)")
        }
        return FunctionList(pointer: pointer)
    }

    private func start(
        _ functions: FunctionList, in process: ModuleProcess?, on thread: TokenThread,
        within limit: Duration
    ) throws(CryptokiError) -> Module {
        let isThreadSafe = try Self.initialize(
            functions, in: process, watch: thread.watch, deadline: limit)
        var info = CK_INFO()
        let value = thread.watch.during("C_GetInfo", within: options.deadlines.data) {
            functions.pointer.pointee.C_GetInfo?(&info)
        }
        guard value == CKR_OK else {
            let value = value.map { ReturnValue(rawValue: $0) } ?? .functionNotSupported
            throw CryptokiError(
                .module(.initializeFailed(value)), function: "C_GetInfo",
                reason: "\(path) answered \(value)")
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

/// Checks a module's file before it is loaded, so that each cause of failure has its own error.
enum SharedObject {
    /// The head of an ELF file (System V ABI, "ELF Header"): magic, class, data, …, type, machine.
    /// 20 bytes.
    private static let headSize = 20
    private static let sharedObject: UInt16 = 3
    /// p11-kit's library, which is also the file of `p11-kit-proxy.so`; without symbolic links.
    static let p11Kit = latchkey_p11_kit_file().flatMap { try? Module.resolve(String(cString: $0)) }

    /// - Throws: `module` with `missing`, `notAModule`, `writableByOthers` or `wrongArchitecture`.
    static func check(_ path: String) throws(CryptokiError) {
        let head = try head(of: path)
        guard head.count == headSize, head.starts(with: [0x7f, 0x45, 0x4c, 0x46]),
            number(head, at: 16) == sharedObject
        else {
            throw CryptokiError(.module(.notAModule), reason: "\(path) is not a shared object")
        }
        try checkOwner(of: path)
        let own = try Self.head(of: "/proc/self/exe")
        guard own.count == headSize, head[4..<6] == own[4..<6],
            number(head, at: 18) == number(own, at: 18)
        else {
            throw CryptokiError(
                .module(.wrongArchitecture), reason: "\(path) is for another processor")
        }
    }

    /// Opens the file and checks that it has `C_GetFunctionList`. It is never closed: unloading a
    /// module would crash the threads that it started.
    static func open(_ path: String) throws(CryptokiError) {
        guard let handle = dlopen(path, RTLD_NOW | RTLD_LOCAL) else {
            let text = dlerror().map { String(cString: $0) } ?? "the loader reports no cause"
            throw CryptokiError(.module(.unloadable), reason: "\(path) can't be loaded: \(text)")
        }
        guard dlsym(handle, "C_GetFunctionList") != nil else {
            throw CryptokiError(.module(.notAModule), reason: "\(path) has no C_GetFunctionList")
        }
    }

    /// A user who can write the file can read every PIN: only root and the current user may be able
    /// to.
    private static func checkOwner(of path: String) throws(CryptokiError) {
        var status = stat()
        guard stat(path, &status) == 0 else { throw unreadable(path) }
        guard status.st_uid == 0 || status.st_uid == geteuid(),
            status.st_mode & (S_IWGRP | S_IWOTH) == 0
        else {
            throw CryptokiError(
                .module(.writableByOthers),
                reason:
                    "\(path) can be changed by users other than root and this user, who could read each PIN"
            )
        }
    }

    private static func head(of path: String) throws(CryptokiError) -> [UInt8] {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw unreadable(path) }
        defer { close(descriptor) }
        var head = [UInt8](repeating: 0, count: headSize)
        let count = read(descriptor, &head, headSize)
        return Array(head.prefix(max(0, count)))
    }

    private static func unreadable(_ path: String) -> CryptokiError {
        CryptokiError(
            .module(.missing), reason: "\(path) can't be read: \(SystemError.last)")
    }

    /// A 16-bit number in the machine's byte order; a file in the other order fails the comparison
    /// of `EI_DATA`.
    private static func number(_ head: [UInt8], at index: Int) -> UInt16 {
        head.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: index, as: UInt16.self) }
    }
}

/// The modules that p11-kit configures (pkcs11.conf(5)): one file `NAME.module` each, with lines
/// `key: value`.
///
/// p11-kit's own function loads all modules at once and reports no failure. It does not check who
/// can change a module's file, and holds a lock in each library's initializer, so that a module
/// that hangs would block all others. Here p11-kit loads each module by its path, after
/// ``SharedObject/check(_:)``. p11-kit tells the settings only of modules that it loaded itself.
struct ConfiguredModules: Sendable {
    /// A configured module.
    struct Entry: Hashable, Sendable {
        /// The file's name without `.module`.
        let name: String
        /// The configured path: absolute, or a name in ``moduleDirectory``.
        let path: String
        /// The text that `C_Initialize` gets in `pReserved` (`x-init-reserved`), for example NSS
        /// softoken's database.
        let parameters: String?
    }

    /// A folder `pkcs11` with the file `pkcs11.conf`, and the folders of modules that belong to it.
    struct Source: Sendable {
        var settings: String
        var modules: [String]
    }

    /// The modules, sorted by name.
    let entries: [Entry]
    /// The names of the files with `remote:`, which p11-kit starts or connects to itself.
    let remotes: [String]

    /// The directory of modules without a path: `pkcs11` in the directory of p11-kit's library.
    static let moduleDirectory: String = {
        let path = latchkey_p11_kit_file().map { String(cString: $0) } ?? ""
        return (path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "/usr/lib") + "/pkcs11"
    }()

    /// The system's configuration. The modules of later folders override earlier ones.
    static let system = Source(
        settings: "/etc/pkcs11/pkcs11.conf",
        modules: ["/usr/share/p11-kit/modules", "/etc/pkcs11/modules"])

    /// The user's configuration; nil for root and if `P11_KIT_NO_USER_CONFIG` is set, as in
    /// p11-kit.
    static var user: Source? {
        let environment = ProcessInfo.processInfo.environment
        guard getuid() != 0, geteuid() == getuid(), environment["P11_KIT_NO_USER_CONFIG"] == nil
        else { return nil }
        // Relative paths are ignored (XDG Base Directory Specification): they would depend on the
        // working directory.
        func absolute(_ name: String) -> String? {
            environment[name].flatMap { $0.hasPrefix("/") ? $0 : nil }
        }
        guard let home = absolute("XDG_CONFIG_HOME") ?? absolute("HOME").map({ "\($0)/.config" })
        else { return nil }
        return Source(settings: "\(home)/pkcs11/pkcs11.conf", modules: ["\(home)/pkcs11/modules"])
    }

    /// - Parameter program: The program for which modules are enabled or disabled.
    init(
        system: Source = system, user: Source? = user,
        program: String = CommandLine.arguments.first ?? ""
    ) {
        var settings: [String: [String: String]] = [:]
        for directory in Self.directories(system, user) {
            let files = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
            for file in files.sorted() where file.hasSuffix(".module") {
                settings[String(file.dropLast(".module".count)), default: [:]]
                    .merge(Self.settings(in: "\(directory)/\(file)")) { $1 }
            }
        }
        let program = program.split(separator: "/").last.map(String.init) ?? program
        remotes = settings.filter {
            $1["module"] == nil && $1["remote"] != nil && Self.isEnabled($1, for: program)
        }.keys.sorted()
        entries = settings.sorted { $0.key < $1.key }.compactMap { name, settings in
            guard let path = settings["module"], !path.isEmpty,
                Self.isEnabled(settings, for: program),
                // A trust module contains only certificates.
                settings["trust-policy"] != "yes"
            else { return nil }
            return Entry(name: name, path: path, parameters: settings["x-init-reserved"])
        }
    }

    /// The parameters of the first configured module with this file, whose path has no symbolic
    /// links.
    func parameters(ofFile file: String) -> String? {
        entries.first { (try? Module.resolve($0.path)) == file }?.parameters
    }

    /// The directories that `user-config` selects. p11-kit fails for another value; here the user's
    /// modules are then ignored.
    private static func directories(_ system: Source, _ user: Source?) -> [String] {
        let mode = settings(in: system.settings)["user-config"] ?? "merge"
        guard let user, mode != "none" else { return system.modules }
        return switch settings(in: user.settings)["user-config"] ?? mode {
        case "merge": system.modules + user.modules
        case "only", "override": user.modules
        default: system.modules
        }
    }

    private static func settings(in path: String) -> [String: String] {
        guard let data = FileManager.default.contents(atPath: path), data.count <= 64 * 1024 else {
            return [:]
        }
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n").map(\.trimmed)
        return lines.reduce(into: [:]) { settings, line in
            guard !line.hasPrefix("#"), let colon = line.firstIndex(of: ":") else { return }
            settings[String(line[..<colon].trimmed)] = String(
                line[line.index(after: colon)...].trimmed)
        }
    }

    /// `disable-in` has no effect next to `enable-in`.
    private static func isEnabled(_ settings: [String: String], for program: String) -> Bool {
        func names(_ key: String) -> [Substring]? {
            settings[key]?.split { $0 == "," || $0 == " " || $0 == "\t" }
        }
        if let enabled = names("enable-in") { return enabled.contains(program[...]) }
        return names("disable-in")?.contains(program[...]) != true
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        let isBlank = { (character: Character) in
            character == " " || character == "\t" || character == "\r"
        }
        guard let first = firstIndex(where: { !isBlank($0) }),
            let last = lastIndex(where: { !isBlank($0) })
        else {
            return ""
        }
        return self[first...last]
    }
}
