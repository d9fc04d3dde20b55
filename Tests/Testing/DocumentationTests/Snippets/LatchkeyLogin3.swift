import LatchkeyLogin

/// Opens the login page from a window, whose state is on the main actor.
@MainActor final class LoginWindow: Browser {
    private(set) var text = ""
    private let browser = DesktopBrowser()

    @MainActor func open(_ url: String) async throws {
        text = "Log in in the browser."
        try await browser.open(url)
    }

    nonisolated func show(_ notice: String) {
        Task { @MainActor in text = notice }
    }
}
