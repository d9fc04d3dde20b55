internal import Latchkey

/// A page of a server whose URL contains a secret.
package struct PrivatePage: Sendable {
    private let url: String

    /// The request that opens a page for the user of an app's session, without an answer to the
    /// app.
    ///
    /// - Parameters:
    ///   - target: The page.
    ///   - authorization: The server's authorization endpoint.
    ///   - token: Logs the browser in once.
    package init(
        _ target: Endpoint, at authorization: Endpoint, clientID: String, scope: String,
        token: String
    ) {
        let fields = [
            ("response_type", "none"), ("client_id", clientID), ("redirect_uri", target.text),
            ("scope", scope), ("prompt", "none"), ("login_hint", LoginHint.appSession(token).text),
            ("x_sso_enabled", "false"),
        ]
        url =
            authorization.text + (authorization.hasQuery ? "&" : "?") + FormEncoding.encode(fields)
    }

    /// Opens the page and waits until the browser has its URL.
    ///
    /// The browser gets a link to a port of this process, as for a login
    /// (``AuthorizationRequest/grant(at:in:)``): other users can read the browser's arguments, so
    /// the arguments contain no secret. Where the system does not show which user opened a
    /// connection, the page does not open.
    ///
    /// - Throws: ``AuthorizationFailure``, or the error of ``Browser/open(_:)``.
    package func open(in browser: any Browser, within timeout: Duration) async throws {
        let listener = try LoopbackListener.start(
            page: { _ in url }, endsWhenOpened: true, notify: { browser.show($0) },
            accept: { _ in nil })
        defer { listener.close() }
        _ = try await listener.answer(in: browser, within: timeout).get()
    }
}

/// The language and the colours of a server's page.
package struct PageSettings: Sendable {
    /// The parameters of the page's URL.
    package let fields: [(String, String)]

    package init(_ uiLocales: [String], _ colorScheme: AuthorizationOptions.ColorScheme?) {
        var fields: [(String, String)] = []
        if !uiLocales.isEmpty {
            fields.append(("ui_locales", uiLocales.joined(separator: " ")))
        }
        if let colorScheme { fields.append(("x_color_scheme", colorScheme.rawValue)) }
        self.fields = fields
    }
}
