import Dispatch
import Foundation
import Latchkey
import LatchkeyLocker
import Synchronization

// The calls of Locker's README, with its argument labels and types, where an app has them: on the
// main actor.

/// The values that a callback received.
struct Answer<Failure: Error>: Sendable {
    let session: AuthSessionStatus
    let error: Failure?
    let isOnMainThread: Bool
}

/// An app that follows the README. Each function is the handler of a button.
@MainActor final class LockerApp {
    let locker: Locker
    /// The text on the screen: the statuses that callbacks received.
    private(set) var shown: [String] = []

    /// Marks the main queue, which is the iOS app's main thread.
    private let mainQueue = DispatchSpecificKey<Void>()

    init(_ locker: Locker) {
        self.locker = locker
        DispatchQueue.main.setSpecific(key: mainQueue, value: ())
    }

    // MARK: Configuring locker

    /// Not called here, because a program has one shared locker. `ConcurrencyTests` calls it.
    static func configure(_ configuration: LockerConfiguration) async throws -> LockerApp {
        let locker = try await ErsteGroupAuth.shared.initializeLocker(configuration)
        return LockerApp(locker)
    }

    // MARK: The method signatures

    // swift-format-ignore
    func signatures() {
        let _: () -> AuthSessionStatus = locker.getAuthSessionStatus
        let _: () -> Bool = locker.isUserInteractionInProgress
        let _: (
            StartAuthSessionOptions?,
            [String:Any?]?,
            @escaping @MainActor (_ session:AuthSessionStatus, _ error : ErsteGroupAuthError?)->()
        ) -> () = locker.startAuthSession(options:metadata:callback:)
        let _: (
            [String:Any?]?,
            @escaping @MainActor (_ session:AuthSessionStatus, _ error : BackgroundAccessError?) -> Void
        ) -> () = locker.backgroundAccess(metadata:callback:)
        let _: (
            EndAuthMode,
            @escaping @MainActor (_ session:AuthSessionStatus, _ error : ErsteGroupAuthError?) -> ()
        ) -> () = locker.endAuthSession(mode:callback:)
        let _: (@escaping @MainActor (_ session:AuthSessionStatus, _ error : Error?)->()) -> ()
            = locker.dismissUI(callback:)
        let _: (@escaping @MainActor (_ session:AuthSessionStatus, _ error : ErsteGroupAuthError?) -> Void) -> ()
            = locker.disableEasyAccess(callback:)
        let _: (@escaping @MainActor (_ session:AuthSessionStatus, _ error : ErsteGroupAuthError?) -> Void) -> ()
            = locker.enableEasyAccess(callback:)
        let _: (@escaping @MainActor (_ session:AuthSessionStatus, _ error : ErsteGroupAuthError?) -> Void) -> ()
            = locker.changeEasyAccess(callback:)
        let _: (String, ProtectionLevel) throws -> String = locker.encrypt(secret:protectionLevel:)
        let _: (String) throws -> String = locker.decrypt(encryptedSecret:)
    }

    // MARK: The calls

    /// Starts a session unless one is active.
    func openApp() async -> Answer<ErsteGroupAuthError>? {
        let status = locker.getAuthSessionStatus()
        guard !status.isActive else { return nil }
        return await start()
    }

    func start(
        options: StartAuthSessionOptions? = nil, metadata: [String: Any?]? = nil
    ) async -> Answer<ErsteGroupAuthError> {
        await withCheckedContinuation { continuation in
            locker.startAuthSession(options: options, metadata: metadata) { session, error in
                self.show(session, error, continuation)
            }
        }
    }

    func background(metadata: [String: Any?]? = nil) async -> Answer<BackgroundAccessError> {
        await withCheckedContinuation { continuation in
            locker.backgroundAccess(metadata: metadata) { session, error in
                self.show(session, error, continuation)
            }
        }
    }

    func end(_ mode: EndAuthMode) async -> Answer<ErsteGroupAuthError> {
        await withCheckedContinuation { continuation in
            locker.endAuthSession(mode: mode) { session, error in
                self.show(session, error, continuation)
            }
        }
    }

    func dismiss() async -> Answer<any Error> {
        await withCheckedContinuation { continuation in
            locker.dismissUI { session, error in self.show(session, error, continuation) }
        }
    }

    func disable() async -> Answer<ErsteGroupAuthError> {
        await withCheckedContinuation { continuation in
            locker.disableEasyAccess { session, error in self.show(session, error, continuation) }
        }
    }

    func enable() async -> Answer<ErsteGroupAuthError> {
        await withCheckedContinuation { continuation in
            locker.enableEasyAccess { session, error in self.show(session, error, continuation) }
        }
    }

    func change() async -> Answer<ErsteGroupAuthError> {
        await withCheckedContinuation { continuation in
            locker.changeEasyAccess { session, error in self.show(session, error, continuation) }
        }
    }

    /// The levels at which a secret can be encrypted now. Synchronous, as the README says.
    func encryptableLevels() -> Set<ProtectionLevel> {
        Set(
            ProtectionLevel.allCases.filter {
                (try? locker.encrypt(secret: "s3cret", protectionLevel: $0)) != nil
            })
    }

    /// The levels whose texts can be decrypted now. Synchronous, as the README says.
    func decryptableLevels(_ texts: [ProtectionLevel: String]) -> Set<ProtectionLevel> {
        Set(texts.filter { (try? locker.decrypt(encryptedSecret: $0.value)) == "s3cret" }.keys)
    }

    private func show<Failure: Error>(
        _ session: AuthSessionStatus, _ error: Failure?,
        _ continuation: CheckedContinuation<Answer<Failure>, Never>
    ) {
        shown.append(error.map { "\($0)" } ?? session.phase.rawValue)
        continuation.resume(
            returning: Answer(
                session: session, error: error,
                isOnMainThread: DispatchQueue.getSpecific(key: mainQueue) != nil))
    }
}

/// The app's delegate, which implements `Logger`.
final class ApplicationDelegate: Logger {
    private let received = Mutex<[(message: String, level: LogLevel)]>([])

    var log: [(message: String, level: LogLevel)] { received.withLock { $0 } }

    // swift-format-ignore
    func handleLogMessage(_ message: String, level: LogLevel) { received.withLock { $0.append((message, level)) } }
}
