/// The options of a login in the browser.
public struct AuthorizationOptions: Hashable, Sendable {
    /// Which page the server shows (OpenID Connect Core section 3.1.2.1).
    public enum Prompt: String, Hashable, Sendable {
        /// No page. The login fails if the server would have to show one.
        case none
        /// The login page, even with an existing session in the browser.
        case login
        /// The page that asks for the user's consent.
        case consent
        /// The page that lets the user select an account.
        case selectAccount = "select_account"
    }

    /// The page that the server shows first, where it has both. Servers ignore what they do not
    /// have.
    public enum Page: String, Hashable, Sendable {
        /// The page for users of the server.
        case login
        /// The page that makes an account.
        case signup
    }

    /// The colours of the server's pages. Servers ignore it if they have no such setting.
    public enum ColorScheme: String, Hashable, Sendable {
        /// Dark text on a light background.
        case light
        /// Light text on a dark background.
        case dark
    }

    package var prompt: [Prompt]
    package let loginHint: LoginHint?
    let page: Page?
    let uiLocales: [String]
    let colorScheme: ColorScheme?
    package let timeout: Duration
    /// The loopback port that the browser returns to; nil for a free one.
    package var callbackPort: UInt16?

    /// - Parameters:
    ///   - prompt: The requested pages. If empty, the server decides.
    ///   - loginHint: The name that the login page contains at the start.
    ///   - page: The page that the server shows first. If nil, the server decides.
    ///   - uiLocales: BCP 47 language tags in order of preference.
    ///   - colorScheme: The colours of the pages. If nil, the server or the browser decides.
    ///   - timeout: How long the login may take; 10 minutes by default.
    public init(
        prompt: [Prompt] = [], loginHint: LoginHint? = nil, page: Page? = nil,
        uiLocales: [String] = [], colorScheme: ColorScheme? = nil,
        timeout: Duration = .seconds(600)
    ) {
        self.prompt = prompt
        self.loginHint = loginHint
        self.page = page
        self.uiLocales = uiLocales
        self.colorScheme = colorScheme
        self.timeout = timeout
    }
}

/// Opens pages of a server in a web browser.
public protocol Browser: Sendable {
    /// Opens a page and returns. It need not wait until the user closes the page. The task is
    /// cancelled when the call that opens the page ends; the page must stay open.
    ///
    /// - Parameter url: An absolute URL on the loopback interface that redirects to the page.
    ///   It works once, and only for programs of the user that runs this process.
    /// - Throws: An error if the page cannot be opened.
    func open(_ url: String) async throws

    /// Shows the user why the login did not accept an answer and still waits. The default does
    /// nothing.
    ///
    /// - Parameter notice: One or more sentences.
    func show(_ notice: String)
}

extension Browser {
    public func show(_ notice: String) {}
}
