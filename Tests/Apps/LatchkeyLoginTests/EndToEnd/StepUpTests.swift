import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// New authentications and the settings page, against the real server over real HTTP.
@Suite(.softwareTPM) struct StepUpTests {
    /// A browser that opens pages and types nothing.
    private struct Reader: Browser {
        let pages: FormBrowser

        func open(_ url: String) async throws {
            // The page stays open when the call that opened it ends.
            try await Task { try await pages.load(url) }.value
        }
    }

    /// Waits until the server's clock shows another second than that of the authentication.
    private func waitForNextSecond(after time: Date?) async throws {
        let next = try #require(time).addingTimeInterval(1)
        #expect(await poll { Date() >= next })
    }

    @Test(arguments: [true, false], ["optional", "refresh_tokens", "access_tokens"])
    func `the key and the login page authenticate the user again at the server`(
        usesKey: Bool, binding: String
    ) async throws {
        try await IdentityProcess.with(client: ["dpop": binding]) { server in
            let machine = try await Machine(server)
            let container = try await machine.start()
            let user = try await container.authorize().userInfo
            try await container.enableBiometric()
            #expect(try await container.canReauthenticate)
            let before = try #require(try await container.authTime)
            try await waitForNextSecond(after: before)
            let browser = FormBrowser(server.users[0])
            let next = try await machine.start(browser)
            let result = try await next.reauthenticate(.init(usesBiometric: usesKey))
            #expect(result.userInfo == user)
            #expect(await browser.loaded.isEmpty == usesKey)
            let after = try #require(try await next.authTime)
            #expect(after > before)
            // The server renewed the session, for every process of the user.
            let other = try await machine.start()
            try await other.refreshIDToken()
            #expect(try await other.authTime == after)
            #expect(try await other.fetchUserInfo() == user)
        }
    }

    @Test func `the login page refuses another user, and the session continues`() async throws {
        try await IdentityProcess.with { server in
            let machine = try await Machine(server)
            let container = try await machine.start()
            try await container.authorize()
            let before = try await container.authTime
            let bob = FormBrowser(server.users[1])
            let other = try await machine.start(bob)
            try await bob.expectRefusal { try await other.reauthenticate() }
            #expect(await bob.loaded.first?.contains("max_age=0") == true)
            #expect(try await container.authTime == before)
            #expect(try await container.fetchUserInfo().userID == container.lastUserID)
        }
    }

    @Test(arguments: ["optional", "refresh_tokens"])
    func `the settings page opens logged in, and the page's logout keeps the app's session`(
        binding: String
    ) async throws {
        try await IdentityProcess.with(
            client: ["dpop": binding], ["identity": ["biometric": ["list_enabled": true]]]
        ) { server in
            let machine = try await Machine(server)
            let pages = FormBrowser(server.users[1])
            let container = try await machine.start()
            try await container.authorize()
            let key = try await container.enableBiometric()
            let reading = try await machine.start(Reader(pages: pages))
            try await reading.open(page: .settings)
            #expect(await pages.page.contains("Logged in as"))
            #expect(await pages.page.contains(server.users[0].username))
            #expect(await pages.address == "\(server.endpoint)/settings")
            try await reading.open(page: .biometric, colorScheme: .dark)
            #expect(await pages.page.contains(key.id.rawValue))
            try await pages.load("\(server.endpoint)/settings")
            try await pages.submit()
            #expect(await pages.page.contains("You are logged out"))
            #expect(try await reading.fetchUserInfo().userID == container.lastUserID)
        }
    }
}
