import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Pages of a server like the deployed ones, for the session's user.
@Suite(.softwareTPM) struct OpenPageTests {
    /// A browser that does not open.
    private struct ClosedBrowser: Browser {
        func open(_ url: String) async throws {}
    }

    @Test func `the browser gets the page's address with a token of the server`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            let tokens = await bench.identity.refreshTokens
            try await container.open(page: .settings, uiLocales: ["de", "en"], colorScheme: .dark)
            let page = try #require(bench.browser.visited.last)
            let token = try #require(await bench.identity.pageTokens.keys.first)
            #expect(page["response_type"] == "none")
            #expect(page["prompt"] == "none")
            #expect(page["client_id"] == "app")
            #expect(
                page["redirect_uri"]
                    == "https://identity.test/settings?ui_locales=de%20en&x_color_scheme=dark")
            #expect(
                page["login_hint"]
                    == "https://authgear.com/login_hint?type=app_session_token&app_session_token=\(token)"
            )
            #expect(await bench.identity.refreshTokens == tokens)
            #expect(try await container.sessionState == .authenticated)
        }
    }

    @Test func `a server without such tokens is not supported`() async throws {
        try await Bench.with(.init(issuesPageTokens: false)) { bench in
            let container = try await bench.start()
            try await container.authorize()
            let pages = bench.browser.visited.count
            await #expect(throws: login(.unsupported)) { try await container.open(page: .settings) }
            #expect(bench.browser.visited.count == pages)
            #expect(try await container.sessionState == .authenticated)
        }
    }

    @Test func `a session that the server has ended ends`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            await #expect(throws: login(.unauthenticated)) {
                try await container.open(page: .settings)
            }
            try await container.authorize()
            await bench.identity.endAllSessions()
            let error = await #expect(throws: LoginError.self) {
                try await container.open(page: .settings)
            }
            #expect(error?.code == .serverError)
            #expect(error?.recovery.contains("session on this device has ended") == true)
            #expect(try await container.sessionState == .noSession)
        }
    }

    @Test func `the call waits for the browser until it is cancelled or the time is over`()
        async throws
    {
        try await Bench.with { bench in
            try await bench.start().authorize()
            let container = try await bench.start(browser: ClosedBrowser())
            await #expect(throws: login(.timedOut)) {
                try await container.open(page: .biometric, timeout: .milliseconds(50))
            }
            let attempt = Task { try await container.open(page: .biometric) }
            #expect(await poll { await bench.identity.pageTokens.count == 2 })
            attempt.cancel()
            await #expect(throws: login(.cancelled)) { try await attempt.value }
        }
    }
}
