internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

/// The result of an attempt to refresh the session.
private enum RefreshOutcome {
    case refreshed(LoginSession)
    /// The server refused the refresh token.
    case invalid
    /// Another task or process changed the session.
    case superseded
}

extension Container {
    /// Gets a new access token if none exists, or if nine tenths of its lifetime have passed.
    /// Concurrent callers share one request.
    ///
    /// Without a session, and when the server has ended the session, the call succeeds and the
    /// state is `noSession`.
    public func refreshAccessTokenIfNeeded() async throws {
        do { _ = try await refreshedSession() } catch { throw error.during("refresh the session") }
    }

    /// The session with an access token, or nil without a session.
    func refreshedSession() async throws -> LoginSession? {
        try await checkServer()
        guard let session = try await currentSession() else {
            observers.tell(SessionStateChange(.noToken))
            return nil
        }
        if let access = session.access, now < access.refreshAt { return session }
        if let refreshing { return try await refreshing.value }
        let task = Task {
            defer { refreshing = nil }
            return try await refresh()
        }
        refreshing = task
        return try await task.value
    }

    /// Refreshes the session, or the session that another process has stored instead.
    ///
    /// Only one process at a time does this: a server accepts a refresh token once, and treats a
    /// second use as theft.
    private func refresh() async throws -> LoginSession? {
        try await records.exclusively {
            guard var session = try await currentSession() else { return nil }
            while true {
                if case .refreshed(let refreshed) = try await attemptRefresh(session) {
                    observers.tell(SessionStateChange(.foundToken))
                    return refreshed
                }
                guard let existing = try await currentSession() else { return nil }
                guard existing.generation != session.generation else {
                    try await endSession(.invalid, ifGeneration: session.generation)
                    return nil
                }
                session = existing
            }
        }
    }

    private func attemptRefresh(_ session: LoginSession) async throws -> RefreshOutcome {
        let server = try await server()
        let response: TokenResponse
        do {
            response = try await server.refresh(session.refreshToken)
        } catch {
            guard error.isInvalidGrant else { throw error }
            return .invalid
        }
        do {
            if let token = response.idToken,
                try server.client.claims(of: token, now: now).sub != session.userID
            {
                throw LoginError.invalidToken("the server's ID token belongs to another user")
            }
        } catch {
            // The server no longer accepts the old refresh token, so the new one is stored.
            try await keep(response.refreshToken, of: session)
            throw error
        }
        return try await store(response, after: session, server)
    }

    /// Stores a new refresh token alone.
    private func keep(_ refreshToken: SecretBytes?, of session: LoginSession) async throws {
        guard let refreshToken, refreshToken != session.refreshToken else { return }
        _ = try await store(
            LoginSession(
                userID: session.userID, refreshToken: refreshToken, idToken: session.idToken,
                access: nil,
                generation: session.generation),
            ifGeneration: session.generation)
    }

    /// Stores a new refresh token before the access token is used.
    private func store(
        _ response: TokenResponse, after session: LoginSession, _ server: LoginEndpoints
    ) async throws -> RefreshOutcome {
        let next = LoginSession(
            userID: session.userID, refreshToken: response.refreshToken ?? session.refreshToken,
            idToken: response.idToken ?? session.idToken,
            access: LoginAccessToken(response, receivedAt: now),
            generation: session.generation)
        if next.refreshToken == session.refreshToken {
            guard try await currentSession()?.generation == session.generation else {
                return .superseded
            }
            self.session = next
            return .refreshed(next)
        }
        if let stored = try await store(next, ifGeneration: session.generation) {
            return .refreshed(stored)
        }
        // The session was replaced or ended. Its token must not stay valid.
        try? await server.revoke(next.refreshToken)
        return .superseded
    }
}
