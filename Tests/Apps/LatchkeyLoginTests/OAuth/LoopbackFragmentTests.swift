import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import Synchronization
import Testing

@testable import LatchkeyOAuth

/// A server that puts its answer into the fragment (`response_mode=fragment`), which the browser does
/// not send.
struct LoopbackFragmentTests {
    private func withListener(
        _ body: (LoopbackListener, _ notices: @Sendable () -> [String]) async throws -> Void
    ) async throws {
        let notices = Mutex<[String]>([])
        let listener = try LoopbackListener.start(
            page: \.self, notify: { notice in notices.withLock { $0.append(notice) } },
            accept: { $0 == "code=c&state=s" ? .success("c") : nil })
        defer { listener.close() }
        try await body(listener) { notices.withLock { $0 } }
    }

    @Test(arguments: ["", "?"])
    func `the page and a notice say that the answer is missing, and the login waits`(
        query: String
    ) async throws {
        try await withListener { listener, notices in
            for _ in 0..<2 {
                let page = try await get(listener.redirectURI + query)
                #expect(page.status == 400)
                #expect(page.body.contains("<h1>The server’s answer is missing</h1>"))
            }
            #expect(notices().count == 1)
            #expect(notices().first?.contains("(response_mode=query)") == true)
            // Any page can open the address, so the error says nothing about the server.
            await #expect(throws: AuthorizationFailure.timedOut) {
                try await listener.answer(within: .milliseconds(50))
            }
            #expect(try await get("\(listener.redirectURI)?code=c&state=s").status == 200)
        }
    }

    @Test(.enabled(if: Chromium.isAvailable, "needs chromium and chromium-driver"))
    func `a browser passes on the answer in the fragment, which must have the right state`()
        async throws
    {
        try await withListener { listener, _ in
            try await Chromium.run { browser in
                try await browser.open("\(listener.redirectURI)#code=c&state=wrong")
                _ = try await browser.waitForAddress { $0.contains("?code=c&state=wrong") }
                #expect(try await browser.text(of: "h1") == "Unexpected response")
                try await browser.open("\(listener.redirectURI)#code=c&state=s")
                _ = try await browser.waitForAddress { $0.contains("?code=c&state=s") }
                #expect(try await browser.text(of: "h1") == "You can close this window")
            }
            #expect(try await listener.answer(within: hangLimit) == .success("c"))
        }
    }
}
