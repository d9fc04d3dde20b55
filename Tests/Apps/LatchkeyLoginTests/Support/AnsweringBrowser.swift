import Foundation
import LatchkeyLogin
import Synchronization

/// A browser that comes back with an answer that the test makes up, or never.
final class AnsweringBrowser: Browser {
    private let answer: @Sendable (_ page: [String: String]) -> String?
    private let state = Mutex<[Int]>([])
    private let openings: (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)

    /// - Parameter answer: The query to come back with, for the query of the page that was shown.
    init(_ answer: @escaping @Sendable (_ page: [String: String]) -> String?) {
        self.answer = answer
        openings = AsyncStream.makeStream()
    }

    /// The listener's responses.
    var statuses: [Int] { state.withLock(\.self) }

    /// Waits until a page was shown, and answered where it is to be.
    func opened() async {
        for await _ in openings.stream { return }
    }

    func open(_ url: String) async throws {
        let page = try await loginPage(url) ?? [:]
        defer { openings.continuation.yield() }
        guard let query = answer(page) else { return }
        let status = try await get("\(page["redirect_uri"] ?? "")?\(query)").status
        state.withLock { $0.append(status) }
    }
}
