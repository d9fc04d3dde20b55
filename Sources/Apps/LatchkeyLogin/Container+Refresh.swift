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
        try await removeEarlierSession()
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

    /// Stores a new refresh token before any other part of the response is judged: the server no
    /// longer accepts the old one.
    private func attemptRefresh(_ session: LoginSession) async throws -> RefreshOutcome {
        let server = try await server(of: session)
        let (response, date): (TokenResponse, Date?)
        do {
            (response, date) = try await server.refresh(session.refreshToken)
        } catch {
            guard error.isInvalidGrant else { throw error }
            return .invalid
        }
        guard let kept = try await keep(response.refreshToken, of: session) else {
            // The session was replaced or ended. Its new token must not stay valid.
            if let token = response.refreshToken, token != session.refreshToken {
                try? await server.revoke(token)
            }
            return .superseded
        }
        let tokens = try response.merged(into: ["token_type": "Bearer"])
            .checked(for: LoginErrorCode.self)
        if let token = tokens.idToken,
            try server.client.claims(of: token, now: now, serverDate: date).sub != session.userID
        {
            throw LoginError.invalidToken("the server's ID token belongs to another user")
        }
        return try await adopt(tokens, after: kept)
    }

    /// Stores a new refresh token alone.
    ///
    /// - Returns: The session with its valid refresh token and without an access token; nil if
    ///   another task or process has replaced or ended it.
    private func keep(_ refreshToken: SecretBytes?, of session: LoginSession) async throws
        -> LoginSession?
    {
        var kept = session
        kept.access = nil
        guard let refreshToken, refreshToken != session.refreshToken else {
            let isCurrent = try await currentSession()?.generation == session.generation
            return isCurrent ? kept : nil
        }
        kept.refreshToken = refreshToken
        return try await store(kept, ifGeneration: session.generation)
    }

    /// Makes the tokens of a valid response the current ones. Stores a new ID token only together
    /// with a new refresh token.
    private func adopt(
        _ tokens: TokenResponse, after kept: LoginSession
    ) async throws -> RefreshOutcome {
        var next = kept
        next.access = try accessToken(tokens)
        if let token = tokens.idToken { next.idToken = token }
        guard tokens.refreshToken != nil, next.idToken != kept.idToken else {
            guard try await currentSession()?.generation == kept.generation else {
                return .superseded
            }
            self.session = next
            return .refreshed(next)
        }
        return try await store(next, ifGeneration: kept.generation).map { .refreshed($0) }
            ?? .superseded
    }
}
