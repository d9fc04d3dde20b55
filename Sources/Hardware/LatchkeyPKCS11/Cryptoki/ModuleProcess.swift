internal import CPKCS11
internal import CPlatform
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// The process of an isolated module, so that a module that hangs or crashes can be killed and
/// restarted.
///
/// It runs `p11-kit remote MODULE`, which speaks p11-kit's protocol on its standard input and
/// output (``ModuleOutput``). The client in this process is `p11-kit-client.so`, which connects to a UNIX socket in
/// `C_Initialize`. This class listens on the socket only during that call, passes the connection to
/// the process, and removes the socket, so that no other program can connect. The process ends when
/// the connection closes; a process that hangs in the module is killed when the thread that started
/// it ends (`PR_SET_PDEATHSIG`, by setpriv(1)).
///
/// p11-kit's protocol has no key agreement before version 0.25: `C_DeriveKey` answers
/// `CKR_MECHANISM_INVALID`.
final class ModuleProcess: Sendable {
    /// The client of p11-kit's protocol. Each `C_GetFunctionList` creates a new client, so that one
    /// file is enough for all processes.
    static var clientModule: String { "\(ConfiguredModules.moduleDirectory)/p11-kit-client.so" }

    private struct State {
        var processIdentifier: pid_t?
        /// Killed processes that were replaced before they were reaped.
        var replaced: Set<pid_t> = []
        /// Why the last process never answered.
        var complaint: String?

        /// - Returns: The complaint, if the process has ended.
        mutating func reap(_ module: String) -> String? {
            var status: Int32 = 0
            guard let process = processIdentifier else { return complaint }
            let reaped = waitpid(process, &status, WNOHANG)
            // Other code in this process reaped it: the process ID may belong to another process
            // now.
            if reaped < 0, errno == ECHILD { processIdentifier = nil }
            guard reaped == process else { return complaint }
            processIdentifier = nil
            let code = status >> 8 & 0xff
            if code == 126 || code == 127 {
                complaint = "setpriv and p11-kit, which run the module, are not both installed"
            } else if status & 0x7f == 0, code != 0 {
                complaint = "p11-kit can't load \(module) in a separate process (exit code \(code))"
            }
            return complaint
        }
    }

    private let module: String
    private let environment: [String: String]
    /// The directory of the socket, mode 0700. It exists only while a connection is made.
    let directory: String
    private let listener = Mutex<ListeningSocket?>(nil)
    private let state = Mutex(State())
    /// The thread that starts the processes. It must not end, because they are killed with it.
    private let spawner = BlockingThread()

    /// - Throws: `module(.notIsolated)` if p11-kit's client is not installed or its address can't
    ///   be set in the environment.
    init(module: String, environment: [String: String]) throws(CryptokiError) {
        guard access(Self.clientModule, R_OK) == 0 else {
            throw .notIsolated("\(Self.clientModule) is not installed")
        }
        guard latchkey_getauxval(23) == 0 else {
            throw .notIsolated(
                "p11-kit ignores its address variable in a program with set-user-ID or capabilities"
            )
        }
        self.module = module
        self.environment = environment
        directory = try Self.makeDirectoryName()
    }

    private var socketPath: String { "\(directory)/socket" }

    /// A name for a new directory. An attacker who creates a directory with that name first only
    /// prevents the start.
    private static func makeDirectoryName() throws(CryptokiError) -> String {
        let runtime = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) }
        let parent = runtime.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        var status = stat()
        // The owner of the parent, and users who may write it if it is not sticky, can replace the
        // directory.
        guard stat(parent, &status) == 0, status.st_uid == 0 || status.st_uid == geteuid(),
            status.st_mode & S_ISVTX != 0 || status.st_mode & (S_IWGRP | S_IWOTH) == 0
        else {
            throw .notIsolated(
                "\(parent) is not a directory that only this user can change; set XDG_RUNTIME_DIR")
        }
        let name =
            "\(parent)/latchkey-\(getpid())-\(String(UInt64.random(in: .min ... .max), radix: 16))"
        guard name.utf8.count + "/socket".utf8.count <= UNIXSocketAddress.maximumPathBytes else {
            throw .notIsolated(
                "the path of its socket would be too long; set XDG_RUNTIME_DIR to a shorter one")
        }
        return name
    }

    /// Listens for the connection of the next `C_Initialize`, and starts a process for it.
    func prepare() throws(CryptokiError) {
        guard mkdir(directory, 0o700) == 0 else {
            throw .notIsolated("\(directory) can't be created: \(SystemError.last)")
        }
        do throws(SystemError) {
            guard let address = UNIXSocketAddress(path: socketPath) else {
                throw SystemError(ENAMETOOLONG)
            }
            let socket = try address.listeningSocket(queue: 1)
            listener.withLock { $0 = socket }
            state.withLock { $0.complaint = nil }
            spawner.enqueue { self.serve(socket) }
        } catch {
            removeDirectory()
            throw .notIsolated("\(socketPath): \(error)")
        }
    }

    /// Stops listening.
    func withdraw() {
        // Ends the wait of the spawner if there was no connection.
        listener.withLock { $0.take() }?.shutDown()
        removeDirectory()
    }

    /// Removes the directory, with the lock file of its socket.
    private func removeDirectory() {
        if let address = UNIXSocketAddress(path: socketPath) { unlink(address.lockPath) }
        rmdir(directory)
    }

    /// Kills the process. Calls into it return with `CKR_DEVICE_ERROR`.
    ///
    /// Does not wait for the end of the process, which the kernel may delay: the watchdog calls
    /// this and must not block. ``reapLater()`` waits.
    func kill() {
        state.withLock { state in
            // The ID of a process that was reaped may belong to another process.
            _ = state.reap(module)
            guard let process = state.processIdentifier else { return }
            Glibc.kill(process, SIGKILL)
        }
    }

    /// The running process.
    var processIdentifier: pid_t? { state.withLock { $0.processIdentifier } }

    /// Why the process never answered. Waits up to two seconds for its end.
    var complaint: String? {
        // A process closes the connection shortly before it can be reaped.
        for _ in 0..<2000 {
            let (complaint, isRunning) = state.withLock {
                ($0.reap(module), $0.processIdentifier != nil)
            }
            if complaint != nil || !isRunning { return complaint }
            usleep(1000)
        }
        return nil
    }

    private func serve(_ socket: ListeningSocket) {
        defer { socket.shutDown() }
        guard let connection = Self.acceptOurselves(socket) else { return }
        kill()
        let output: ModuleOutput
        do throws(SystemError) {
            output = try ModuleOutput(to: connection)
        } catch {
            state.withLock { $0.complaint = "a pipe can't be created: \(error)" }
            return
        }
        // Under the lock, so that other threads see the process as soon as it runs.
        state.withLock { state in
            do throws(CryptokiError) {
                let process = try output.serve { (input, output) throws(CryptokiError) in
                    try ChildSpawner.spawn(
                        ["setpriv", "--pdeathsig", "KILL", "p11-kit", "remote", module],
                        input: input, output: output, environment: environment)
                }
                if let killed = state.processIdentifier { state.replaced.insert(killed) }
                state.processIdentifier = process
            } catch {
                state.complaint = error.reason
            }
        }
        reapLater(output)
    }

    /// Waits for a connection from this process. Refuses connections of other processes.
    ///
    /// - Returns: The connection, which the caller closes; nil if the socket was shut down.
    private static func acceptOurselves(_ socket: ListeningSocket) -> Int32? {
        while let connection = try? ListeningSocket.accept(on: socket.descriptor) {
            let peer = PeerCredentials(of: connection)
            if peer?.process == getpid(), peer?.user == geteuid() { return connection }
            close(connection)
        }
        return nil
    }

    /// Waits for the end of the process on a separate thread, so that a process that was not killed
    /// (it crashed, or its module was finalized) does not stay a zombie. Then ends its connection.
    private func reapLater(_ output: ModuleOutput) {
        guard let process = processIdentifier else { return }
        BlockingThread.start { [weak self] in
            var information = siginfo_t()
            // WNOWAIT: the process is reaped under the lock, so that its ID stays valid until then.
            while waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) != 0, errno == EINTR
            {}
            output.hangUp()
            guard let self else {
                // No other thread can reap the process any more.
                waitpid(process, nil, WNOHANG)
                return
            }
            state.withLock { state in
                if state.processIdentifier == process {
                    _ = state.reap(self.module)
                } else if state.replaced.remove(process) != nil {
                    waitpid(process, nil, WNOHANG)
                }
            }
        }
    }
}

extension ModuleProcess {
    private static let environmentLock = Mutex(())

    /// Runs `body`, which calls the client's `C_GetFunctionList`, with the socket's address in
    /// `P11_KIT_SERVER_ADDRESS`.
    ///
    /// Other threads may read the environment at the same time; see ``EnvironmentVariable``.
    func withAddressInEnvironment<R>(_ body: () throws(CryptokiError) -> R) throws(CryptokiError)
        -> R
    {
        let address = "P11_KIT_SERVER_ADDRESS=unix:path=\(socketPath)"
        return try Self.environmentLock.withLock { _ throws(CryptokiError) in
            guard let variable = EnvironmentVariable(setting: address) else {
                throw .notIsolated("out of memory")
            }
            // If memory is short the variable stays, which is harmless: its socket no longer
            // exists.
            defer { variable.unset() }
            return try body()
        }
    }
}

extension CryptokiError {
    static func notIsolated(_ reason: String) -> CryptokiError {
        CryptokiError(
            .module(.notIsolated), reason: "the module can't run in a separate process: \(reason)")
    }
}
