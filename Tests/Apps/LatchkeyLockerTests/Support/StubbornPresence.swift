import Latchkey
import Synchronization

/// A prompt that ignores cancellation: it answers when the test says so.
final class StubbornPresence: PresenceAuthority {
    private let pin: String
    private let answering = AsyncStream.makeStream(of: Void.self)
    private let count = Mutex(0)

    init(pin: String) { self.pin = pin }

    /// Waits for the prompt.
    func isAsked() async {
        while count.withLock({ $0 }) == 0 { await Task.yield() }
    }

    func answer() { answering.continuation.finish() }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        count.withLock { $0 += 1 }
        await Task { for await _ in answering.stream {} }.value
        return .pin(try PIN(pin))
    }
}
