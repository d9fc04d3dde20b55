internal import Latchkey

extension AuthorizationRequest {
    /// Opens the login page in the browser and waits for the response on a loopback port (RFC
    /// 8252).
    ///
    /// The browser gets a link to a port of this process, which redirects to the login page. Other
    /// users can read the browser's arguments, so the arguments contain only that link. Only
    /// programs of the same user are redirected. Where the system does not show which user opened a
    /// connection, a second request for the link ends the login.
    ///
    /// - Parameter page: The server's authorization endpoint.
    /// - Throws: ``AuthorizationFailure``, or the error of ``Browser/open(_:)``.
    package func grant(at page: Endpoint, in browser: any Browser) async throws
        -> AuthorizationGrant
    {
        let listener = try LoopbackListener.start(
            port: options.callbackPort, page: { url(at: page, redirectURI: $0) },
            notify: { browser.show($0) },
            accept: { self.answer($0) })
        defer { listener.close() }
        let answer = try await listener.answer(in: browser, within: options.timeout)
        return AuthorizationGrant(
            code: try answer.get(), codeVerifier: pkce.codeVerifier,
            redirectURI: listener.redirectURI,
            nonce: nonce)
    }
}

extension LoopbackListener {
    /// Opens the link and waits for the answer. ``Browser/open(_:)`` may return before or after the
    /// answer.
    func answer(
        in browser: any Browser, within timeout: Duration
    ) async throws -> AuthorizationAnswer {
        try await withThrowingTaskGroup(of: AuthorizationAnswer?.self) { group in
            group.addTask { try await answer(within: timeout) }
            group.addTask {
                try await browser.open(link)
                return nil
            }
            defer { group.cancelAll() }
            while let outcome = try await group.next() {
                if let outcome { return outcome }
            }
            throw AuthorizationFailure.cancelled
        }
    }
}

/// The values that redeem an authorization code. The ID token must contain the nonce.
package struct AuthorizationGrant: Hashable, Sendable {
    package let code: String
    package let codeVerifier: String
    package let redirectURI: String
    package let nonce: String
}

/// Why a login in the browser gave no code.
package enum AuthorizationFailure: Error, Hashable, Sendable {
    /// The task was cancelled.
    case cancelled
    /// The user cancelled the login in the browser: the server's error is `cancel` or
    /// `access_denied`.
    case declined
    /// The user did not finish the login in time.
    case timedOut
    /// The link to the login page was opened twice, perhaps by another user.
    case linkReused
    /// The port on the loopback interface cannot be opened; nil for any port. The text is the
    /// cause.
    case noPort(UInt16?, String)
    /// The server's error response (RFC 6749 section 4.1.2.1).
    case refused(OAuth2Error)
    /// The response names another issuer, or does not name its issuer although the server announces
    /// it (RFC 9207).
    case otherIssuer(String?, expected: String)

    /// The cause, as a clause, and the next step, as a sentence.
    var explanation: (reason: String, recovery: Recovery) {
        let startAgain: Recovery = "Start again when you are ready."
        switch self {
        case .cancelled: return ("the login was cancelled", startAgain)
        case .declined: return ("the login was cancelled in the browser", startAgain)
        case .timedOut:
            return (
                "the login in the browser was not finished in time",
                "Start again. If the server's page showed an error, for example for a wrong client ID or redirect address, correct that first: a server does not report it to the program."
            )
        case .linkReused:
            return (
                "the link to the login page was opened twice, the first time perhaps by another user",
                "Start again, and open the link once. If it happens again, check which other users are logged in on "
                    + "this machine."
            )
        case .noPort(let port?, let cause):
            return (
                "the port \(port) of the loopback interface cannot be opened: \(cause)",
                "Choose a port from 1024 to 65535 that no other program uses."
            )
        case .noPort(nil, _):
            return (
                "no port on the loopback interface can be opened",
                "Check that the loopback interface is up."
            )
        case .refused(let error):
            let refusal = ServerRefusal(error, status: nil)
            return (refusal.reason, refusal.recovery)
        case .otherIssuer(let named, let expected):
            let reason =
                if let named {
                    "the authorization response comes from ‘\(String(oneLine: named, limit: 256))’ and not from ‘\(expected)’"
                } else {
                    "the authorization response does not name its issuer, although the server announces that it does"
                }
            return (
                reason,
                "Start again. If it happens again, show this text to the server's operator. No code was redeemed."
            )
        }
    }
}
