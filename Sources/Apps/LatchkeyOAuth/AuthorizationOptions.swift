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

    let prompt: [Prompt]
    let uiLocales: [String]
    package let timeout: Duration
    /// The loopback port that the browser returns to; nil for a free one.
    package var callbackPort: UInt16?

    /// - Parameters:
    ///   - prompt: The requested pages. If empty, the server decides.
    ///   - uiLocales: BCP 47 language tags in order of preference.
    ///   - timeout: How long the login may take; 10 minutes by default.
    public init(prompt: [Prompt] = [], uiLocales: [String] = [], timeout: Duration = .seconds(600))
    {
        self.prompt = prompt
        self.uiLocales = uiLocales
        self.timeout = timeout
    }
}

/// Opens the login page in a web browser.
public protocol Browser: Sendable {
    /// Opens a page and returns. It need not wait until the user closes the page.
    ///
    /// - Parameter url: An absolute URL on the loopback interface that redirects to the login page.
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
