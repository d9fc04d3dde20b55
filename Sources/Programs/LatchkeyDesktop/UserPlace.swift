internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The directories of the user whose keyring a program opens. The program runs as this user, so a
/// path that the user controls gives it no other rights.
package struct UserPlace: Sendable {
    package let home: String
    /// `XDG_RUNTIME_DIR`.
    package let runtimeDirectory: String
    /// `XDG_DATA_HOME`, or its default.
    package let dataDirectory: String

    init(home: String, runtimeDirectory: String, dataDirectory: String) {
        (self.home, self.runtimeDirectory) = (home, runtimeDirectory)
        self.dataDirectory = dataDirectory
    }

    /// Reads the directories from an environment.
    ///
    /// - Throws: `CommonError`: `refused` for root, and for a runtime directory of which this
    ///   process's user is not the only one with access; `unavailable` without the directories.
    package init(environment: [String: String]) throws(CommonError) {
        guard geteuid() != 0, getuid() == geteuid(), getgid() == getegid() else {
            throw CommonError(
                code: .refused, reason: "root has no keyring, and the program changes no user",
                recovery: "Run it as the user of the keyring.")
        }
        home = try Self.directory("HOME", environment)
        runtimeDirectory = try Self.directory("XDG_RUNTIME_DIR", environment)
        let data = environment["XDG_DATA_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        dataDirectory = data ?? "\(home)/.local/share"
        var status = stat()
        guard lstat(runtimeDirectory, &status) == 0 else {
            throw Self.unusable(runtimeDirectory, SystemError.last.description)
        }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
            status.st_mode & 0o077 == 0
        else {
            throw CommonError(
                code: .refused,
                reason: "\(runtimeDirectory) is no directory of this user alone",
                recovery: "Sign in again, so that the system creates it.")
        }
    }

    private static func directory(_ name: String, _ environment: [String: String])
        throws(CommonError) -> String
    {
        guard let path = environment[name], path.hasPrefix("/") else {
            throw CommonError(
                code: .unavailable, reason: "\(name) is not set to an absolute path",
                recovery: "Run the program in the session of the user.")
        }
        return path
    }

    private static func unusable(_ path: String, _ reason: String) -> CommonError {
        CommonError(
            code: .unavailable, reason: "\(path) cannot be used: \(reason)",
            recovery: "Run the program in the session of the user.")
    }
}

/// A connection to a socket of another program, whose calls all end at one deadline. Blocks its
/// thread.
struct DeadlineConnection: ~Copyable {
    enum Failure: Error {
        /// No program listens.
        case absent
        case late
        case closed
        case system(SystemError)
    }

    let descriptor: Int32
    private let deadline: ContinuousClock.Instant

    init(_ path: String, until deadline: ContinuousClock.Instant) throws(Failure) {
        guard let address = UNIXSocketAddress(path: path) else {
            throw .system(SystemError(ENAMETOOLONG))
        }
        let type = __socket_type(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
        while true {
            do throws(SystemError) {
                descriptor = try address.connectedSocket(type)
                break
            } catch {
                switch error.number {
                case ENOENT, ECONNREFUSED: throw .absent
                // The queue of the program is full. The wait is short, because nothing reports room.
                case EAGAIN, EINTR:
                    guard .now < deadline else { throw .late }
                    _ = try? Poll.wait(for: [], until: min(deadline, .now + .milliseconds(10)))
                default: throw .system(error)
                }
            }
        }
        self.deadline = deadline
    }

    deinit { close(descriptor) }

    func send(_ bytes: UnsafeRawBufferPointer) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest)
            let count = Glibc.send(
                descriptor, part.baseAddress, part.count, Int32(MSG_NOSIGNAL))
            if count > 0 {
                rest = rest.dropFirst(count)
            } else {
                try checkLast()
                try wait(POLLOUT)
            }
        }
    }

    /// Receives bytes until the buffer is full.
    func receive(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) {
        var rest = buffer[...]
        while !rest.isEmpty {
            let part = UnsafeMutableRawBufferPointer(rebasing: rest)
            let count = read(descriptor, part.baseAddress, part.count)
            guard count != 0 else { throw .closed }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else {
                try checkLast()
                try wait(POLLIN)
            }
        }
    }

    /// Receives the bytes that are there, after a wait for the first.
    ///
    /// - Returns: The number of bytes; 0 at the end.
    func receiveSome(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) -> Int {
        while true {
            let count = read(descriptor, buffer.baseAddress, buffer.count)
            if count >= 0 { return count }
            try checkLast()
            try wait(POLLIN)
        }
    }

    private func checkLast() throws(Failure) {
        switch errno {
        case EAGAIN, EINTR: return
        case EPIPE, ECONNRESET: throw .closed
        default: throw .system(.last)
        }
    }

    private func wait(_ events: Int32) throws(Failure) {
        let isReady: Bool
        do throws(SystemError) {
            isReady = try Poll.wait(for: descriptor, events, until: deadline)
        } catch {
            throw .system(error)
        }
        guard isReady else { throw .late }
    }
}
