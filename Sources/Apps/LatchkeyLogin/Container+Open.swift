internal import FoundationEssentials
internal import Latchkey
public import LatchkeyOAuth

/// A page on which the server's users manage their accounts.
public enum SettingsPage: String, Hashable, Sendable {
    /// The first page of the settings.
    case settings = "/settings"
    /// The list of the devices with biometric login.
    case biometric = "/settings/biometric"
    /// The list of login names and of accounts at other services. `latchkey-identity` does not have
    /// it.
    case identities = "/settings/identities"
}

extension Container {
    /// Opens a page of the server in the browser, in which the session's user is then logged in.
    /// Returns when the browser has the page's address.
    ///
    /// The server issues a token that opens the page once. The browser gets it by a redirect from a
    /// port of this process, as in ``authorize(_:reason:)``, so that it is not in the browser's
    /// arguments. Where the system does not show which user a connection belongs to, the page does not
    /// open, and the call ends with `timedOut`.
    ///
    /// - Parameters:
    ///   - uiLocales: BCP 47 language tags in order of preference.
    ///   - colorScheme: The colours of the page. If nil, the server or the browser decides.
    ///   - timeout: How long the browser may take; 10 minutes by default.
    /// - Throws: ``LoginError``: `unauthenticated` without a session, `unsupported` if the server
    ///   cannot do it, `cancelled`, `timedOut`, or `linkReused`. If the server has ended the
    ///   session, the session on this device ends too. Errors of `Browser.open(_:)`.
    public func open(
        page: SettingsPage, uiLocales: [String] = [],
        colorScheme: AuthorizationOptions.ColorScheme? = nil, timeout: Duration = .seconds(600)
    ) async throws {
        do {
            try await checkServer()
            try await removeEarlierSession()
            let server = try await server()
            let token = try await appSessionToken()
            let authorization = try server.client.endpoint(.authorization)
            let settings = FormEncoding.encode(PageSettings(uiLocales, colorScheme).fields)
            let target = authorization.onSameOrigin(
                path: page.rawValue + (settings.isEmpty ? "" : "?\(settings)"))
            try await PrivatePage(
                target, at: authorization, clientID: configuration.clientID,
                scope: LoginEndpoints.scope, token: token
            ).open(in: browser, within: timeout)
        } catch let failure as AuthorizationFailure {
            throw LoginError(.authorization(failure)).during("open the page")
        } catch {
            throw error.during("open the page")
        }
    }

    /// Only one process at a time uses the refresh token: a server treats a replaced one as stolen.
    private func appSessionToken() async throws -> String {
        try await records.exclusively {
            guard let session = try await currentSession() else {
                throw LoginError.unauthenticated()
            }
            do {
                return try await server(of: session).appSessionToken(session.refreshToken)
            } catch let error as LoginError where error.isInvalidGrant {
                throw try await ended(session, after: error)
            }
        }
    }
}
