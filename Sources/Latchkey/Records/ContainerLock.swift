internal import Crypto
internal import FoundationEssentials
internal import Glibc

/// A lock on one thing of a container: the kernel's, on a byte of a file beside the store. It ends with this object, or
/// with its process.
final class ContainerLock: Sendable {
    private let descriptor: Int32
    private let place: Int

    /// Opens the file, and locks nothing yet.
    ///
    /// - Parameter resource: What of the container it is about; nil for the container as a whole, which is a thing of its
    ///   own.
    /// - Throws: ``KeystoreError`` with code `unavailable`.
    init(on resource: String?, of container: String, in store: RecordStore, _ operation: String) throws(KeystoreError) {
        let path = "\(store.path).\(Self.digest(container).hexadecimal).lock"
        descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw KeystoreError(
                operation: operation, code: .unavailable,
                reason: "\(path) can't be opened: \(String(cString: strerror(errno)))",
                recovery: "Check the owner and mode of the store's directory.")
        }
        place = resource.map(Self.place) ?? 0
    }

    /// Closing the file ends the lock.
    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Locks one byte of the file for this open file description (fcntl(2), `F_OFD_SETLK`), so that one file has room
    /// for all locks of a container.
    ///
    /// - Returns: Whether nobody else has it.
    func isAcquired() -> Bool {
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = place
        lock.l_len = 1
        return withUnsafeMutablePointer(to: &lock) { fcntl(descriptor, Self.openFileDescriptionLock, $0) } == 0
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
