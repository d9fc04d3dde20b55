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
    /// - Parameter subject: What the lock is for; those for other subjects don't wait for each other. Empty for the whole
    ///   container. Each subject leaves a file, so let there be few.
    /// - Throws: ``KeystoreError`` with code `transient` when another program keeps the lock for a minute, `cancelled`,
    ///   and whatever `body` throws.
    package func exclusively<R>(for operation: String, over subject: String = "", _ body: () async throws -> R)
        async throws -> R
    {
        let name = SHA256.hash(data: Data((subject.isEmpty ? name : "\(name)\0\(subject)").utf8)).prefix(8).map {
            ($0 < 16 ? "0" : "") + String($0, radix: 16)
        }
        let path = "\(store.path).\(name.joined()).lock"
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
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            guard ContinuousClock.now < deadline else {
                throw KeystoreError(
                    operation: operation, code: .transient, reason: "another program is busy with the same container",
                    recovery: "Try again.")
            }
            // flock(2) tells nobody when a lock becomes free, and waiting inside it could not be cancelled.
            do { try await Task.sleep(for: .milliseconds(10)) } catch { throw KeystoreError.cancelled(operation) }
        }
        return try await body()
    }
}
