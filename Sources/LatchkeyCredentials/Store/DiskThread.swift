internal import Dispatch

/// A thread for calls that wait for the disk, so that no task's thread has to.
final class DiskThread: Sendable {
    private let queue = DispatchQueue(label: "latchkey.credentials.disk")

    func run<R: Sendable>(_ body: @escaping @Sendable () throws -> R) async throws -> R {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result(catching: body)) }
        }
    }
}
