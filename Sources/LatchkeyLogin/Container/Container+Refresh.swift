internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

/// How an attempt to refresh ended.
private enum RefreshOutcome {
    case refreshed(Session)
    /// The server took the token back.
    case invalid
    /// Somebody else changed the session meanwhile.
    case superseded
}

extension Container {
    /// Gets a new access token if there is none or it has used up nine tenths of its life. Tasks that ask at the same
    /// time share one request.
    ///
    /// Without a session, and when the server says that the session is over, the call succeeds and the state says
    /// that nobody is logged in.
    public func refreshAccessTokenIfNeeded() async throws {
        _ = try await refreshedSession("refresh the session")
    }

    /// The session with an access token, or nil when nobody is logged in.
    func refreshedSession(_ operation: String) async throws -> Session? {
        try await checkServer(operation)
        guard let session = try await currentSession(operation) else {
            observers.tell(.noToken)
            return nil
        }
        if let access = session.access, now < access.refreshAt { return session }
        if let refreshing { return try await refreshing.value }
        let task = Task {
            defer { refreshing = nil }
            return try await refresh(operation)
        }
        refreshing = task
        return try await task.value
    }

    /// Refreshes the session, and the one that another process may have put in its place.
    ///
    /// One process at a time: a server takes a refresh token once, and takes its second use for theft.
    private func refresh(_ operation: String) async throws -> Session? {
        try await records.exclusively(for: operation) {
            guard var session = try await currentSession(operation) else { return nil }
            while true {
                if case .refreshed(let refreshed) = try await attemptRefresh(session, operation) {
                    observers.tell(.foundToken)
                    return refreshed
                }
                guard let standing = try await currentSession(operation) else { return nil }
                guard standing.generation != session.generation else {
                    try await endSession(.invalid, ifGeneration: session.generation)
                    return nil
                }
                session = standing
            }
        }
    }

    private func attemptRefresh(_ session: Session, _ operation: String) async throws -> RefreshOutcome {
        let server = try await server(for: operation)
        let response: TokenResponse
        do {
            response = try await server.refresh(session.refreshToken)
        } catch {
            guard error.isInvalidGrant else { throw error }
            return .invalid
        }
        do {
            if let token = response.idToken,
                try server.claims(of: token, now: now, serverDate: nil).sub != session.userID
            {
                throw LoginError.invalidToken(operation, "the server's ID token is another user's")
            }
        } catch {
            // The server takes the old refresh token no more: the new one is all that is left of the session.
            try await keep(response.refreshToken, of: session, operation)
            throw error
        }
        return try await adopt(response, after: session, server)
    }

    /// Stores a new refresh token alone.
    private func keep(_ refreshToken: SecretBytes?, of session: Session, _ operation: String) async throws {
        guard let refreshToken, refreshToken != session.refreshToken else { return }
        _ = try await store(
            Session(
                userID: session.userID, refreshToken: refreshToken, idToken: session.idToken, access: nil,
                generation: session.generation),
            ifGeneration: session.generation, operation)
    }

    /// A new refresh token is stored before anybody can use what came with it.
    private func adopt(
        _ response: TokenResponse, after session: Session, _ server: IdentityServer
    ) async throws -> RefreshOutcome {
        let next = Session(
            userID: session.userID, refreshToken: response.refreshToken ?? session.refreshToken,
            idToken: response.idToken ?? session.idToken, access: AccessToken(response, receivedAt: now),
            generation: session.generation)
        if next.refreshToken == session.refreshToken {
            guard try await currentSession(server.operation)?.generation == session.generation else {
                return .superseded
            }
            self.session = next
            return .refreshed(next)
        }
        if let stored = try await store(next, ifGeneration: session.generation, server.operation) {
            return .refreshed(stored)
        }
        // The session is somebody else's by now, or over: this token must not outlive it.
        try? await server.revoke(next.refreshToken)
        return .superseded
    }
}
