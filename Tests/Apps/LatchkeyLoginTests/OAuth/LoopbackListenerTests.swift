import Foundation
import HTTPTypes
import Latchkey
import LatchkeySimulators
import Testing

@testable import LatchkeyLogin
@testable import LatchkeyOAuth

struct LoopbackListenerTests {
    private func withListener(_ body: (LoopbackListener) async throws -> Void) async throws {
        let listener = try LoopbackListener.start(page: \.self) {
            $0 == "right" ? .success("c") : nil
        }
        defer { listener.close() }
        try await body(listener)
    }

    @Test func `only a GET of the path with the right query ends the wait`() async throws {
        try await withListener { listener in
            let uri = listener.redirectURI
            let origin = uri.dropLast(LoopbackListener.path.count)
            #expect(try await get("\(origin)/").status == 404)
            #expect(try await get("\(origin)/callbacks?right").status == 404)
            #expect(try await get("\(uri)?right", method: .post).status == 405)
            #expect(try await get(uri).status == 400)
            #expect(try await get("\(uri)?wrong").status == 400)
            #expect(try await get("\(uri)?\(String(repeating: "x", count: 8_000))").status == 400)
            let page = try await get("\(uri)?right")
            #expect(page.status == 200)
            #expect(page.body.contains("<main><h1>You can close this window</h1>"))
            #expect(try await listener.answer(within: hangLimit) == .success("c"))
        }
    }

    @Test func `the listener uses the loopback interface and stops when closed`() async throws {
        let listener = try LoopbackListener.start(page: \.self) { _ in nil }
        #expect(
            listener.redirectURI.wholeMatch(of: /http:\/\/127\.0\.0\.1:[0-9]+\/callback/) != nil)
        listener.close()
        await #expect(throws: keystore(.unavailable)) { try await get(listener.redirectURI) }
    }

    @Test func `the wait ends after the timeout`() async throws {
        try await withListener { listener in
            await #expect(throws: AuthorizationFailure.timedOut) {
                try await listener.answer(within: .milliseconds(50))
            }
        }
    }
}
