internal import Latchkey

/// Everybody who wants to hear of session changes.
final class SessionObservers: Sendable {
    private let broadcast = Broadcast<SessionStateChange>()

    /// A stream that starts with `first`.
    func stream(startingWith first: SessionStateChange) -> AsyncStream<SessionStateChange> {
        broadcast.stream(startingWith: first)
    }

    func tell(_ reason: SessionStateChange.Reason) {
        broadcast.tell(SessionStateChange(reason))
    }
}
