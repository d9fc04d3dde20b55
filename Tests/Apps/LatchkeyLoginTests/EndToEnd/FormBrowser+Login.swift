import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

extension FormBrowser: Browser {
    init(_ user: IdentityProcess.User) {
        self.init(user, transport: CurlTransport())
    }

    /// Logs in on the page, and goes where that leads.
    public func open(_ url: String) async throws {
        try await load(url)
        try await logIn()
    }

    /// Starts a login, waits for the server's page for a user to whom this device does not belong,
    /// and cancels the login.
    func expectRefusal(of attempt: @escaping @Sendable () async throws -> Void) async throws {
        let task = Task { try await attempt() }
        #expect(await poll { page.contains("This device is set up for another account.") })
        task.cancel()
        await #expect(throws: login(.cancelled)) { try await task.value }
    }
}
