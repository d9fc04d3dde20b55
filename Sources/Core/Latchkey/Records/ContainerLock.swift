internal import Crypto
internal import FoundationEssentials
internal import Glibc
internal import LatchkeyPlatform

/// A lock on one resource of a container: the kernel's lock on one byte of a file next to the
/// store. It ends with this object, or if the process ends, when no process has a copy of the
/// descriptor.
final class ContainerLock: Sendable {
    private let descriptor: Int32
    private let offset: Int

    /// Opens the file, and locks nothing yet.
    ///
    /// - Parameter resource: The resource within the container; nil for the container as a whole,
    ///   which is a separate resource.
    /// - Throws: ``CommonError`` with code `unavailable`.
    init(on resource: String?, of container: String, in store: RecordStore) throws(CommonError) {
        let path = "\(store.path).\(Self.digest(container).hexadecimal).lock"
        descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommonError(
                code: .unavailable,
                reason: "\(path) cannot be opened: \(SystemError.last)",
                recovery: "Check the owner and mode of the store's directory.")
        }
        offset = resource.map(Self.offset) ?? 0
    }

    deinit {
        // A child process has a copy of the descriptor until its `exec`, so close(2) alone may
        // leave the lock to that copy.
        set(F_UNLCK)
        close(descriptor)
    }

    /// Locks one byte of the file for this open file description (fcntl(2), `F_OFD_SETLK`), so that
    /// one file holds all locks of a container.
    ///
    /// - Returns: Whether the lock was free.
    func isAcquired() -> Bool { set(F_WRLCK) }

    @discardableResult
    private func set(_ type: Int32) -> Bool {
        var lock = flock()
        lock.l_type = Int16(type)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = offset
        lock.l_len = 1
        return withUnsafeMutablePointer(to: &lock) {
            fcntl(descriptor, Self.openFileDescriptionLock, $0)
        } == 0
    }

    /// `F_OFD_SETLK` of Linux's `fcntl.h`, which glibc defines with `_GNU_SOURCE` only.
    private static let openFileDescriptionLock: Int32 = 37

    /// A byte of the file, never the first. If two resources share a byte, one waits for the other.
    private static func offset(of resource: String) -> Int {
        digest(resource).reduce(0) { $0 << 7 | Int($1 & 0x7F) } + 1
    }

    private static func digest(_ text: String) -> [UInt8] {
        Array(SHA256.hash(data: Data(text.utf8)).prefix(8))
    }
}

extension [UInt8] {
    fileprivate var hexadecimal: String {
        map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

extension RecordContainer {
    /// How long to wait for another program that holds the lock.
    private static let timeout: Duration = .seconds(60)

    /// Runs `body` while no other task or program runs one for this container: for a value that a
    /// server accepts once, such as a refresh token. Read the records again inside: another program
    /// may just have changed them.
    ///
    /// The lock is the kernel's, on a file next to the store, so it ends with its process. `body`
    /// must not prompt.
    ///
    /// - Parameters:
    ///   - resource: The resource within the container; calls for different resources don't wait
    ///     for each other. nil for the container as a whole, which is a separate resource.
    /// - Throws: ``CommonError`` with code `transient` if another program holds the lock for a
    ///   minute, `cancelled`, and the errors of `body`.
    package func exclusively<R>(
        on resource: String? = nil, _ body: () async throws -> R
    ) async throws -> R {
        try store.checkWritable()
        let lock = try ContainerLock(on: resource, of: name, in: store)
        let deadline = ContinuousClock.now + Self.timeout
        while !lock.isAcquired() {
            guard ContinuousClock.now < deadline else {
                throw CommonError(
                    code: .transient, reason: "another program is busy with the same container",
                    recovery: "Try again.")
            }
            // The kernel does not report when a lock becomes free, and waiting inside it could not
            // be cancelled.
            do { try await Task.sleep(for: .milliseconds(10)) } catch {
                throw CommonError.cancelled()
            }
        }
        defer { withExtendedLifetime(lock) {} }
        return try await body()
    }
}
