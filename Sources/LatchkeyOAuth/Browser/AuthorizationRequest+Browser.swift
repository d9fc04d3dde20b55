package import Latchkey

extension AuthorizationRequest {
    /// Has the person log in: shows the page in the browser, and waits on a loopback port for the answer (RFC 8252).
    ///
    /// The browser gets a link to a port of this program, which takes the first who comes to the login page: only that
    /// address is in its arguments, where other users can read it. Nobody but programs of the same user is let through,
    /// and a second visit ends the login.
    ///
    /// - Parameter page: The server's authorization endpoint.
    /// - Throws: ``AuthorizationFailure``, or what ``Browser/open(_:)`` throws.
    package func grant(at page: Endpoint, in browser: any Browser) async throws -> AuthorizationGrant {
        let listener = try await LoopbackListener.start(
            page: { url(at: page, redirectURI: $0) }, accept: { self.answer($0) })
        let answer: AuthorizationAnswer
        do {
            answer = try await show(listener, in: browser)
        } catch {
            await listener.close()
            throw error
        }
        await listener.close()
        switch answer {
        case .code(let code):
            return AuthorizationGrant(
                code: code, codeVerifier: pkce.verifier, redirectURI: listener.redirectURI, nonce: nonce)
        case .refused(let error): throw AuthorizationFailure.refused(error)
        case .otherIssuer(let named): throw AuthorizationFailure.otherIssuer(named, expected: server.issuer)
        case .linkReused: throw AuthorizationFailure.linkReused
        }
    }

    /// Opens the page and waits. A browser that stays in the foreground until the person is done is as good as one
    /// that does not.
    private func show(_ listener: LoopbackListener, in browser: any Browser) async throws -> AuthorizationAnswer {
        try await withThrowingTaskGroup(of: AuthorizationAnswer?.self) { group in
            group.addTask { try await listener.answer(within: options.timeout) }
            group.addTask {
                try await browser.open(listener.link)
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
