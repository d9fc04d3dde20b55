/// That something is being made which the hardware can take back, under a name by which that was noted. It lasts as long as
/// what was made waits to be stored: what is noted and announced by nobody is left over from a crash.
final class Announcement: Sendable {
    private let lock: ContainerLock

    private init(_ lock: ContainerLock) { self.lock = lock }

    /// - Returns: nil where somebody else is making it.
    convenience init?(
        of name: String, container: String, in store: RecordStore, _ operation: String
    ) throws(KeystoreError) {
        let lock = try ContainerLock(on: "revocation.\(name)", of: container, in: store, operation)
        guard lock.isAcquired() else { return nil }
        self.init(lock)
    }
}
