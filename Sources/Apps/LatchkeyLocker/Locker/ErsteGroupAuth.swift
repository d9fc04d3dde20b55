public import Latchkey
internal import Synchronization

/// Makes the app's one ``Locker``.
public final class ErsteGroupAuth: Sendable {
    /// The instance of this process.
    public static let shared = ErsteGroupAuth()

    /// The current or successful opening of the locker, with its issuer and client.
    private typealias Opening = (
        issuer: String, clientID: String, task: Task<Result<Locker, ErsteGroupAuthError>, Never>
    )

    private let current = Mutex<Opening?>(nil)

    private init() {}

    /// Makes the app's locker and opens it: reads the enrolment, and unseals the parts that do not
    /// require user verification. Concurrent callers share one opening. After a failure, the next
    /// call tries again.
    ///
    /// - Returns: The locker. A second call with the same issuer and client returns the same one.
    /// - Throws: ``ErsteGroupAuthError``; `invalidConfiguration`, `alreadyInitialized` for another
    ///   issuer or client, `environmentChanged` when the store has another server's enrolment,
    ///   `storageCorrupted`, `wrongDevice`.
    @discardableResult
    public func initializeLocker(_ configuration: LockerConfiguration)
        async throws(ErsteGroupAuthError) -> Locker
    {
        let (issuer, clientID, task) = current.withLock { current in
            let opening =
                current ?? (
                    configuration.issuer, configuration.clientID, Task { await open(configuration) }
                )
            current = opening
            return opening
        }
        guard issuer == configuration.issuer, clientID == configuration.clientID else {
            throw ErsteGroupAuthError(
                operation: "initialize the locker", code: .alreadyInitialized,
                reason: "a locker with another server or client is open", recovery: "Use that one.")
        }
        return try await task.value.get()
    }

    private func open(_ configuration: LockerConfiguration) async -> Result<
        Locker, ErsteGroupAuthError
    > {
        do throws(ErsteGroupAuthError) {
            let locker = try Locker(configuration)
            try await locker.open()
            return .success(locker)
        } catch {
            current.withLock { $0 = nil }
            return .failure(error)
        }
    }
}
