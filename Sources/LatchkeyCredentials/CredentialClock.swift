public import FoundationEssentials

/// What time it is, and how to wait.
public protocol CredentialClock: Sendable {
    /// The time, as this clock has it.
    var now: Date { get }

    /// Waits. Throws when the task is cancelled.
    func sleep(for duration: Duration) async throws
}
