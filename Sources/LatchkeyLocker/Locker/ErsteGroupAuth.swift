internal import Synchronization

/// The entry: makes the app's locker, once.
public final class ErsteGroupAuth: Sendable {
    /// The one of this process.
    public static let shared = ErsteGroupAuth()

    private let made = Mutex<Locker?>(nil)

    private init() {}

    /// Makes the app's locker and opens it: reads the enrolment, and unseals what needs nobody.
    ///
    /// - Returns: The locker. A second call with the same issuer and client returns the same one.
    /// - Throws: ``ErsteGroupAuthError``; `invalidConfiguration`, `alreadyInitialized` for another issuer or client,
    ///   `environmentChanged` when the store has another server's enrolment, `storageCorrupted`, `wrongDevice`.
    @discardableResult
    public func initializeLocker(_ configuration: LockerConfiguration) async throws(ErsteGroupAuthError) -> Locker {
        if let locker {
            guard locker.configuration.issuer == configuration.issuer,
                locker.configuration.clientID == configuration.clientID
            else {
                throw ErsteGroupAuthError(
                    operation: "initialize the locker", code: .alreadyInitialized,
                    reason: "there is one for another server or client", recovery: "Use that one.")
            }
            return locker
        }
        let locker = try Locker(configuration)
        try await locker.open()
        made.withLock { $0 = $0 ?? locker }
        return self.locker ?? locker
    }

    /// The locker, once there is one.
    public var locker: Locker? { made.withLock { $0 } }
}
