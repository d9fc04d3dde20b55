internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The login keyring of gnome-keyring, through the control socket of its daemon.
///
/// The daemon creates a keyring if it gets a secret and there is none, and writes an unencrypted one
/// for an empty secret. So each request needs an encrypted login keyring, and an empty secret is
/// refused here. The calls block.
package struct GnomeKeyring: Sendable {
    /// The state of the file `login.keyring`.
    package enum File: Sendable, Equatable {
        case absent
        case encrypted
        /// Unencrypted: everyone who reads the disk reads its passwords.
        case clearText
        /// Neither of the formats, or it cannot be read.
        case unknown
    }

    /// The daemon's answer to a request.
    package enum Answer: UInt32, Sendable {
        case done = 0
        /// The secret is wrong.
        case denied = 1
    }

    private enum Operation: UInt32 {
        case unlock = 1
        case change = 2
    }

    /// The maximum length of a secret in bytes.
    package static let maximumSecretLength = 4096
    private static let encryptedStart = Array("GnomeKeyring\n\r\0\n".utf8)
    private static let clearTextStart = Array("[keyring]".utf8)

    private let socket: String
    private let path: String

    package init(_ place: UserPlace) {
        socket = "\(place.runtimeDirectory)/keyring/control"
        path = "\(place.dataDirectory)/keyrings/login.keyring"
    }

    /// Whether there is a login keyring, and in which format.
    package var file: File {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { return errno == ENOENT ? .absent : .unknown }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            return .unknown
        }
        var start = [UInt8](repeating: 0, count: Self.encryptedStart.count)
        let count = max(0, read(descriptor, &start, start.count))
        let found = start.prefix(count)
        if found.elementsEqual(Self.encryptedStart) { return .encrypted }
        return found.starts(with: Self.clearTextStart) ? .clearText : .unknown
    }

    /// Checks what ``unlock(_:until:)`` needs: an encrypted login keyring, and its daemon.
    ///
    /// - Throws: As ``unlock(_:until:)``.
    package func check() throws(CommonError) {
        try checkFile()
        guard UNIXSocketAddress(path: socket)?.isServed == true else {
            throw Self.described(.absent)
        }
    }

    /// Opens the keyring. While it is open, this tests a secret: the keyring stays open.
    ///
    /// - Parameters:
    ///   - secret: The secret as the daemon gets it: for a secret of ``KeyringKind/gnome`` its
    ///     hexadecimal digits.
    ///   - deadline: Also of the wait for the daemon, which may start later.
    /// - Throws: `CommonError`: `notFound` without a login keyring, `refused` for an unencrypted
    ///   one and for a socket of another user, `unavailable` without an answer until the deadline,
    ///   `invalidInput` for a secret that is empty, too long or has a zero byte, `failed` if the
    ///   daemon cannot open the keyring.
    package func unlock(_ secret: SecretBytes, until deadline: ContinuousClock.Instant)
        throws(CommonError) -> Answer
    {
        try request(.unlock, [secret], until: deadline)
    }

    /// Replaces the secret. The keyring is open afterwards.
    ///
    /// - Returns: `denied` if `old` is wrong; nothing is changed then.
    /// - Throws: As ``unlock(_:until:)``. After an error it is not known whether the secret changed.
    package func change(
        from old: SecretBytes, to new: SecretBytes, until deadline: ContinuousClock.Instant
    ) throws(CommonError) -> Answer {
        try request(.change, [old, new], until: deadline)
    }

    private func request(
        _ operation: Operation, _ secrets: [SecretBytes], until deadline: ContinuousClock.Instant
    ) throws(CommonError) -> Answer {
        try check(secrets)
        let packet = Self.packet(operation, secrets)
        while true {
            try checkFile()
            do throws(DeadlineStream.Failure) {
                return try exchange(packet, until: deadline)
            } catch {
                // The daemon starts during the sign-in, so its socket can come later.
                if case .absent = error, ContinuousClock.now < deadline {
                    _ = try? Poll.wait(for: [], until: min(deadline, .now + .milliseconds(25)))
                    continue
                }
                throw Self.described(error)
            }
        }
    }

    private func exchange(_ packet: SecretBytes, until deadline: ContinuousClock.Instant)
        throws(DeadlineStream.Failure) -> Answer
    {
        let connection = try DeadlineConnection(socket, until: deadline)
        guard PeerCredentials(of: connection.stream.descriptor)?.user == geteuid() else {
            throw .system(SystemError(EPERM))
        }
        try connection.stream.send(packet)
        var answer: (length: UInt32, result: UInt32) = (0, 0)
        do {
            var bytes = [UInt8](repeating: 0, count: 8)
            var failure: DeadlineStream.Failure?
            let stream = connection.stream
            bytes.withUnsafeMutableBytes { buffer in
                do throws(DeadlineStream.Failure) { try stream.receive(into: buffer) } catch {
                    failure = error
                }
            }
            if let failure { throw failure }
            answer.length = bytes[..<4].reduce(0) { $0 << 8 | UInt32($1) }
            answer.result = bytes[4...].reduce(0) { $0 << 8 | UInt32($1) }
        }
        guard answer.length == 8, let result = Answer(rawValue: answer.result) else {
            throw .system(SystemError(EPROTO))
        }
        return result
    }

    /// One zero byte, which carries the credentials, then the lengths and values, big endian.
    private static func packet(_ operation: Operation, _ secrets: [SecretBytes]) -> SecretBytes {
        let length = 8 + secrets.reduce(0) { $0 + 4 + $1.count }
        return SecretBytes(count: 1 + length) { target in
            var next = 1
            func append(_ number: UInt32) {
                for shift in [24, 16, 8, 0] as [UInt32] {
                    target[next] = UInt8(truncatingIfNeeded: number >> shift)
                    next += 1
                }
            }
            append(UInt32(length))
            append(operation.rawValue)
            for secret in secrets {
                append(UInt32(secret.count))
                secret.withUnsafeBytes {
                    UnsafeMutableRawBufferPointer(rebasing: target[next..<(next + $0.count)])
                        .copyMemory(from: $0)
                    next += $0.count
                }
            }
        }
    }

    private func check(_ secrets: [SecretBytes]) throws(CommonError) {
        for secret in secrets {
            let isAcceptable = secret.withUnsafeBytes { bytes in
                (1...Self.maximumSecretLength).contains(bytes.count) && !bytes.contains(0)
            }
            guard isAcceptable else {
                throw .invalidInput(
                    "a keyring's secret has 1 to \(Self.maximumSecretLength) bytes, none of them zero"
                )
            }
        }
    }

    private func checkFile() throws(CommonError) {
        switch file {
        case .encrypted: return
        case .absent:
            throw .notFound(
                "there is no login keyring (\(path))",
                recovery:
                    "Sign in to the desktop with your login password once, so that it is created.")
        case .clearText:
            throw CommonError(
                code: .refused, reason: "the login keyring \(path) is not encrypted",
                recovery: "Set a password for it in the program for passwords and keys.")
        case .unknown:
            throw CommonError(
                code: .refused, reason: "\(path) is no login keyring that can be read",
                recovery: "Restore the file from a backup, or move it away.")
        }
    }

    private static func described(_ failure: DeadlineStream.Failure) -> CommonError {
        let reason: String
        switch failure {
        case .absent: reason = "gnome-keyring-daemon does not run"
        case .late: reason = "gnome-keyring-daemon did not answer in time"
        case .closed: reason = "gnome-keyring-daemon closed the connection without an answer"
        case .system(let error) where error.number == EPROTO:
            return CommonError(
                code: .failed, reason: "gnome-keyring-daemon could not do the request",
                recovery: "Look for its messages in the journal.")
        case .system(let error) where error.number == EPERM:
            return CommonError(
                code: .refused, reason: "the keyring's socket belongs to another user",
                recovery: "Sign in again, so that the system creates the socket.")
        case .system(let error): reason = "the keyring's socket cannot be used: \(error)"
        }
        return CommonError(
            code: .unavailable, reason: reason,
            recovery: "Run the program in a desktop session, whose keyring daemon runs.")
    }
}
