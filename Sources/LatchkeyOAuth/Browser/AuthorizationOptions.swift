/// How a login in the browser is to go.
public struct AuthorizationOptions: Hashable, Sendable {
    /// What the server is to ask (OpenID Connect Core section 3.1.2.1).
    public enum Prompt: String, Hashable, Sendable {
        /// Nothing: it fails where somebody would have to be asked.
        case none
        /// The user's proof, although there is a session in the browser.
        case login
        /// The user's agreement.
        case consent
        /// Which account.
        case selectAccount = "select_account"
    }

    /// Empty lets the server decide.
    public var prompt: [Prompt]
    /// BCP 47 language tags in order of preference.
    public var uiLocales: [String]
    /// How long the person may take.
    public var timeout: Duration

    /// - Parameter timeout: See ``timeout``; 10 minutes by default.
    public init(prompt: [Prompt] = [], uiLocales: [String] = [], timeout: Duration = .seconds(600)) {
        self.prompt = prompt
        self.uiLocales = uiLocales
        self.timeout = timeout
    }
}
