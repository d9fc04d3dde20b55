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
        let lock = try ContainerLock(on: resource, of: name, in: store, operation)
        let deadline = ContinuousClock.now + Self.patience
        while !lock.isAcquired() {
            guard ContinuousClock.now < deadline else {
                throw KeystoreError(
                    operation: operation, code: .transient, reason: "another program is busy with the same container",
                    recovery: "Try again.")
            }
            // The kernel tells nobody when a lock becomes free, and waiting inside it could not be cancelled.
            do { try await Task.sleep(for: .milliseconds(10)) } catch { throw KeystoreError.cancelled(operation) }
        }
        defer { withExtendedLifetime(lock) {} }
        return try await body()
    }
}
