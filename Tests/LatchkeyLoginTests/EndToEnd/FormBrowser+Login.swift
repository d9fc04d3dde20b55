import LatchkeyHTTP
import LatchkeyLogin
import LatchkeyTestSupport

extension FormBrowser: Browser {
    init(_ user: IdentityProcess.User) {
        self.init(user, transport: AsyncHTTPTransport())
    }

    /// Logs in on the page, and goes where that leads.
    public func open(_ url: String) async throws {
        try await load(url)
        try await logIn()
    }

    /// Removes the first device of the list on the settings page.
    func removeFirstDevice(at endpoint: String) async throws {
        try await openDevices(at: endpoint)
        try await submit()
    }

    /// Shows the list of devices on the settings page, logging in before.
    func openDevices(at endpoint: String) async throws {
        try await load("\(endpoint)/login")
        if page.contains("name=\"password\"") { try await logIn() }
        try await load("\(endpoint)/settings/biometric")
    }
}
