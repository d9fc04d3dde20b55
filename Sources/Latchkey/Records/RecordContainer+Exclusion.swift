internal import Crypto
internal import FoundationEssentials
internal import Glibc

extension RecordContainer {
    /// How long to wait for another program that has the lock.
    private static let patience: Duration = .seconds(60)

    /// Runs `body` while nobody else, in this process or another, runs one for this container: for what a server takes
    /// once only, such as a refresh token. Read the records again inside: another program may just have changed them.
    ///
    /// The lock is the kernel's, on a file beside the store, so it ends with its process. No person may be asked inside.
    ///
    /// - Parameters:
    ///   - resource: What of the container it is about; calls about different things don't wait for each other. nil for
    ///     the container as a whole, which is a thing of its own.
    /// - Throws: ``KeystoreError`` with code `transient` when another program keeps the lock for a minute, `cancelled`,
    ///   and whatever `body` throws.
    package func exclusively<R>(
        on resource: String? = nil, for operation: String, _ body: () async throws -> R
    ) async throws -> R {
        let path = "\(store.path).\(Self.digest(name).hexadecimal).lock"
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw KeystoreError(
                operation: operation, code: .unavailable,
                reason: "\(path) can't be opened: \(String(cString: strerror(errno)))",
                recovery: "Check the owner and mode of the store's directory.")
        }
        // Closing the file ends the lock.
        defer { close(descriptor) }
        let deadline = ContinuousClock.now + Self.patience
        while !Self.lock(descriptor, at: resource.map(Self.place) ?? 0) {
            guard ContinuousClock.now < deadline else {
                throw KeystoreError(
                    operation: operation, code: .transient, reason: "another program is busy with the same container",
                    recovery: "Try again.")
            }
            // The kernel tells nobody when a lock becomes free, and waiting inside it could not be cancelled.
            do { try await Task.sleep(for: .milliseconds(10)) } catch { throw KeystoreError.cancelled(operation) }
        }
        return try await body()
    }

    /// Locks one byte of the file for this open file description (fcntl(2), `F_OFD_SETLK`), so that one file has room
    /// for all locks of a container.
    private static func lock(_ descriptor: Int32, at place: Int) -> Bool {
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = place
        lock.l_len = 1
        return withUnsafeMutablePointer(to: &lock) { fcntl(descriptor, openFileDescriptionLock, $0) } == 0
    }

    /// `F_OFD_SETLK` of Linux's `fcntl.h`, which glibc shows with `_GNU_SOURCE` only.
    private static let openFileDescriptionLock: Int32 = 37

    /// A byte of the file, never the first. Two things that meet there wait for each other, which harms nothing.
    private static func place(of resource: String) -> Int {
        digest(resource).reduce(0) { $0 << 7 | Int($1 & 0x7F) } + 1
    }

    private static func digest(_ text: String) -> [UInt8] {
        Array(SHA256.hash(data: Data(text.utf8)).prefix(8))
    }
}

extension [UInt8] {
    fileprivate var hexadecimal: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
}
