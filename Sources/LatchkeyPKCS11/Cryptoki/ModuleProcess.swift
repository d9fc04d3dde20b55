internal import CEnvironment
internal import CPKCS11
internal import FoundationEssentials
internal import Glibc
internal import Synchronization

/// A process that a module runs in, so that a module that hangs or crashes can be killed and started again.
///
/// It is `p11-kit remote MODULE`, which speaks p11-kit's protocol on its standard input and output. Our side of the
/// protocol is `p11-kit-client.so`. That connects to a UNIX socket at `C_Initialize`; we listen there only for as long
/// as this takes, hand the connection to the process, and remove the socket, so that nothing is left behind and nobody
/// else can connect. The process ends when the connection does; one that hangs in the module dies with the thread that
/// started it, that is with us (`PR_SET_PDEATHSIG`, by setpriv(1)).
///
/// p11-kit's protocol has no key agreement before version 0.25: `C_DeriveKey` answers `CKR_MECHANISM_INVALID`.
final class ModuleProcess: Sendable {
    /// Our side of p11-kit's protocol. Each `C_GetFunctionList` in it makes a client of its own, so one file serves any
    /// number of processes.
    static var clientModule: String { "\(ConfiguredModules.moduleDirectory)/p11-kit-client.so" }

    private struct State {
        var processIdentifier: pid_t?
        /// What became of the last process, where it never served.
        var complaint: String?

        /// - Returns: the complaint, where the process has ended.
        mutating func reap(_ module: String) -> String? {
            var status: Int32 = 0
            guard let process = processIdentifier else { return complaint }
            let reaped = waitpid(process, &status, WNOHANG)
            // Somebody else in this process waited for it: the number may be anybody's by now.
            if reaped < 0, errno == ECHILD { processIdentifier = nil }
            guard reaped == process else { return complaint }
            processIdentifier = nil
            let code = status >> 8 & 0xff
            if code == 126 || code == 127 {
                complaint = "setpriv and p11-kit, which run the module, are not both installed"
            } else if status & 0x7f == 0, code != 0 {
                complaint = "p11-kit can't load \(module) in a process of its own (exit code \(code))"
            }
            return complaint
        }
    }

    private let module: String
    private let environment: [String: String]
    /// Holds the socket, mode 0700. It is there only while a connection is made.
    let directory: String
    private let listener = Mutex<Int32?>(nil)
    private let state = Mutex(State())
    /// Starts the processes. It lives as long as we do, since they die with it.
    private let keeper: TokenThread

    /// - Throws: `module(.notIsolated)` where p11-kit's client is not installed or the environment can't name an address.
    init(module: String, environment: [String: String]) throws(CryptokiError) {
        guard access(Self.clientModule, R_OK) == 0 else {
            throw .notIsolated("\(Self.clientModule) is not installed")
        }
        guard latchkey_getauxval(23) == 0 else {
            throw .notIsolated("a program with set-user-ID or capabilities has no say in where p11-kit connects to")
        }
        self.module = module
        self.environment = environment
        directory = try Self.makeDirectoryName()
        keeper = TokenThread { _ in nil }
    }

    private var socketPath: String { "\(directory)/socket" }

    /// A name for a directory that does not exist; whoever makes one of that name first keeps us from starting, and no
    /// more.
    private static func makeDirectoryName() throws(CryptokiError) -> String {
        let runtime = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) }
        let parent = runtime.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        var status = stat()
        // Whose directory it is, and who may write it where it is not sticky, can put another one in place of ours.
        guard stat(parent, &status) == 0, status.st_uid == 0 || status.st_uid == geteuid(),
            status.st_mode & S_ISVTX != 0 || status.st_mode & (S_IWGRP | S_IWOTH) == 0
        else {
            throw .notIsolated("\(parent) is no directory that only this user can change; set XDG_RUNTIME_DIR")
        }
        let name = "\(parent)/latchkey-\(getpid())-\(UInt64.random(in: .min ... .max).hexadecimal)"
        guard name.utf8.count + "/socket".utf8.count <= ListeningSocket.maximumPathBytes else {
            throw .notIsolated("the path of its socket would be too long; set XDG_RUNTIME_DIR to a shorter one")
        }
        return name
    }

    /// Listens for the connection that `C_Initialize` makes next, and starts a process when it comes.
    func prepare() throws(CryptokiError) {
        guard mkdir(directory, 0o700) == 0 else {
            throw .notIsolated("\(directory) can't be made: \(String(cString: strerror(errno)))")
        }
        let descriptor: Int32
        do throws(CryptokiError) {
            descriptor = try ListeningSocket.make(at: socketPath)
        } catch {
            rmdir(directory)
            throw error
        }
        listener.withLock { $0 = descriptor }
        state.withLock { $0.complaint = nil }
        keeper.enqueue { self.serve(descriptor) }
    }

    /// Stops listening.
    func withdraw() {
        listener.withLock { descriptor in
            // Ends the wait of a keeper to whom nobody came. The keeper closes, under the same lock, so that the number
            // is still the socket's.
            if let descriptor { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
        unlink(socketPath)
        rmdir(directory)
    }

    /// Ends the process, whatever it does. Calls into it come back with `CKR_DEVICE_ERROR`.
    ///
    /// It does not wait for the end, which a process in the kernel's hands may put off: who calls this watches over
    /// all other calls too. ``reapLater()`` waits.
    func kill() {
        state.withLock { state in
            // What has ended or was reaped by somebody else has a number that may be another's.
            _ = state.reap(module)
            guard let process = state.processIdentifier else { return }
            Glibc.kill(process, SIGKILL)
        }
    }

    /// The process, while there is one.
    var processIdentifier: pid_t? { state.withLock { $0.processIdentifier } }

    /// Why the process never served, when it did not.
    var complaint: String? {
        // A process that ends has closed the connection a moment before it can be reaped.
        for _ in 0..<100 {
            let (complaint, isRunning) = state.withLock { ($0.reap(module), $0.processIdentifier != nil) }
            if complaint != nil || !isRunning { return complaint }
            usleep(1000)
        }
        return nil
    }

    private func serve(_ descriptor: Int32) {
        defer {
            listener.withLock { current in
                close(descriptor)
                if current == descriptor { current = nil }
            }
        }
        guard let connection = ListeningSocket.acceptOurselves(descriptor) else { return }
        defer { close(connection) }
        kill()
        // Under the lock, so that nobody looks for the process between its start and our knowing of it.
        state.withLock { state in
            do throws(CryptokiError) {
                state.processIdentifier = try ChildSpawner.spawn(
                    ["setpriv", "--pdeathsig", "KILL", "p11-kit", "remote", module],
                    connectedTo: connection, environment: environment)
            } catch {
                state.complaint = error.reason
            }
        }
        reapLater()
    }

    /// Waits for the end of the process on a thread of its own, so that a process that ends by itself (it crashed, or
    /// its module was finalised) does not stay a zombie.
    private func reapLater() {
        guard let process = processIdentifier else { return }
        OperatingSystemThread.start { [weak self] in
            var information = siginfo_t()
            // This call leaves the process to be reaped under the lock, where the process ID cannot be another's yet.
            while waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
            guard let self else {
                // Only this thread still knows the process.
                waitpid(process, nil, WNOHANG)
                return
            }
            reapIfEnded(process)
        }
    }

    private func reapIfEnded(_ process: pid_t) {
        state.withLock { state in
            guard state.processIdentifier == process else { return }
            _ = state.reap(module)
        }
    }
}

extension ModuleProcess {
    private static let environmentLock = Mutex(())

    /// Lets `body` call the client's `C_GetFunctionList` with our address in `P11_KIT_SERVER_ADDRESS`.
    ///
    /// Other threads may read the environment meanwhile; see `latchkey_environment_change`.
    func withAddressInEnvironment<R>(_ body: () throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        let address = "P11_KIT_SERVER_ADDRESS=unix:path=\(socketPath)"
        return try Self.environmentLock.withLock { _ throws(CryptokiError) in
            guard let entry = strdup(address), latchkey_environment_change(entry, nil) != 0 else {
                throw .notIsolated("there is no memory for its address")
            }
            // Without memory it stays: the name of a socket that is gone, which does nobody harm.
            defer { _ = latchkey_environment_change(nil, entry) }
            return try body()
        }
    }
}

extension CryptokiError {
    static func notIsolated(_ reason: String) -> CryptokiError {
        CryptokiError(.module(.notIsolated), reason: "the module can't run in a process of its own: \(reason)")
    }
}

extension UInt64 {
    /// Without a prefix, in lower case.
    fileprivate var hexadecimal: String { String(self, radix: 16) }
}
