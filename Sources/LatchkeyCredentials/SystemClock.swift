public import FoundationEssentials

/// The machine's clock.
public struct SystemClock: CredentialClock {
    /// The system's clock.
    public init() {}

    public var now: Date { Date() }

    public func sleep(for duration: Duration) async throws {
        try await Task.sleep(for: duration)
    }
}
