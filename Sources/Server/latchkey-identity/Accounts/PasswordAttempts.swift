import LatchkeyPlatform
import Synchronization

/// The limit of wrong passwords for one user name, in this process.
///
/// An attacker can keep a user out with ``maximum`` wrong passwords in each ``period``.
final class PasswordAttempts: Sendable {
    static let maximum = 10
    static let period = Duration.seconds(300)

    /// Only names whose password was checked are stored, so that the time of a check limits their
    /// number.
    private let attempts = Mutex(RateLimit<String>(maximum, in: period))

    /// Counts an attempt before its check, so that parallel attempts do not exceed the limit.
    ///
    /// - Returns: Whether the password may be checked.
    func begin(_ name: String) -> Bool { attempts.withLock { $0.admit(name, at: .now) } }

    /// The password was not checked.
    func withdraw(_ name: String) { attempts.withLock { $0.withdraw(name) } }

    /// The password was right.
    func forget(_ name: String) { attempts.withLock { $0.forget(name) } }
}
