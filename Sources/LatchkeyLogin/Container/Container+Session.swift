internal import FoundationEssentials
internal import Latchkey

extension Container {
    /// Whether somebody is logged in, as far as this device knows. Needs no hardware.
    public var sessionState: SessionState {
        get async throws { try await sessionGeneration() == nil ? .noSession : .authenticated }
    }

    /// The session's state now (reason `noToken` or `foundToken`) and then every change that this container makes,
    /// after it is stored.
    public func changes() async throws -> AsyncStream<SessionStateChange> {
        let reason: SessionStateChange.Reason = try await sessionState == .authenticated ? .foundToken : .noToken
        return observers.stream(startingWith: SessionStateChange(reason))
    }

    /// An access token for the app's own requests, refreshed if it is about to expire. Send it as a bearer token and
    /// nowhere but to the app's servers.
    ///
    /// - Throws: ``LoginError``; `unauthenticated` without a session.
    public var accessToken: String {
        get async throws { try await accessibleSession("get an access token").access.value }
    }

    /// What the server says about the user.
    ///
    /// - Throws: ``LoginError``; `unauthenticated` without a session. When the server says that the session is over,
    ///   it is over here too.
    public func fetchUserInfo() async throws -> UserInfo {
        let operation = "fetch the user's data"
        let (session, access) = try await accessibleSession(operation)
        do {
            let user = try await server(for: operation).userInfo(access: access)
            guard user.userID == session.userID else {
                throw LoginError.invalidResponse(operation, "the server answered for another user")
            }
            return user
        } catch let error as LoginError where error.isInvalidGrant {
            try await endSession(.invalid, ifGeneration: session.generation)
            throw error
        }
    }

    /// Ends the session on the server and here, and by default disables biometric login too, so that another user can
    /// log in. The last user's id is kept.
    ///
    /// - Parameters:
    ///   - keepBiometric: Leaves the key, so that the same user, and nobody else, can log in with it again.
    ///   - force: Does everything that can be done here, whatever the server says. A login that belongs to another server is
    ///     removed from this device, and no server is told.
    /// - Throws: ``LoginError``, or `KeystoreError`; without `force` the session is then kept.
    public func logout(keepBiometric: Bool = false, force: Bool = false) async throws {
        let operation = "log out"
        if !force { try await checkServer(operation) }
        let hasKey = force ? true : try await metadata.key() != nil
        if hasKey && !keepBiometric {
            do {
                try await disableBiometric(force: force)
            } catch let error as LoginError where error.code == .identityNotFound || error.code == .notEnabled {
                // That the server had forgotten the key already is what was wanted.
            }
        }
        do {
            if force { try await checkServer(operation) }
            if let session = try await currentSession(operation) {
                try await server(for: operation).revoke(session.refreshToken)
            }
        } catch  where force {
            // The server's copy of the session expires by itself. Another server is told nothing.
        }
        try await endSession(.logout, ifGeneration: nil)
    }

    /// Forgets the session on this device, and tells the server nothing. Biometric login stays.
    public func clear() async throws {
        try await endSession(.clear, ifGeneration: nil)
    }

    // MARK: For the other parts

    /// The session and an access token that is good for a while.
    func accessibleSession(
        _ operation: String, recovery: String = "Log in, then try again."
    ) async throws -> (session: Session, access: AccessToken) {
        guard let session = try await refreshedSession(operation), let access = session.access else {
            throw LoginError.unauthenticated(operation, recovery: recovery)
        }
        return (session, access)
    }

    /// Where the session stands, or nil without one. Needs no hardware.
    func sessionGeneration() async throws -> Int? {
        switch configuration.tokenStorage {
        case .memory: session?.generation
        case .persistent: try await metadata.sessionGeneration()
        }
    }

    /// The session, read again if another process has changed it.
    func currentSession(_ operation: String) async throws -> Session? {
        guard let generation = try await sessionGeneration() else {
            session = nil
            return nil
        }
        if let session, session.generation >= generation { return session }
        let stored = try await rows.session(for: PromptContext(reason: operation, container: name))
        // Generations only rise: what came meanwhile is newer than what was read.
        if let stored, stored.generation <= session?.generation ?? 0 { return session }
        session = stored
        return stored
    }

    /// Stores a session, and with it, all or nothing, other rows; then, and not before, it is the current one.
    ///
    /// - Parameter ifGeneration: The generation of the session that it follows, or nil for any.
    /// - Returns: The session as stored, or nil, with nothing changed, when another one is stored by now.
    func store(
        _ session: Session, _ changes: [RecordChange] = [], ifGeneration: Int?, _ operation: String
    ) async throws -> Session? {
        var session = session
        let prompt = PromptContext(reason: operation, container: name)
        switch configuration.tokenStorage {
        case .memory:
            if !changes.isEmpty { try await rows.apply(changes, for: prompt) }
            guard ifGeneration == nil || ifGeneration == self.session?.generation else { return nil }
            memoryGeneration += 1
            session.generation = memoryGeneration
        case .persistent:
            let all = try changes + [rows.put(session, ifGeneration: ifGeneration)]
            guard let stored = try await rows.applyUnlessChanged(all, for: prompt)?.last else { return nil }
            session.generation = stored.generation
        }
        self.session = session
        return session
    }

    /// Forgets the session, unless it is another one by now.
    func endSession(_ reason: SessionStateChange.Reason, ifGeneration: Int?) async throws {
        switch configuration.tokenStorage {
        case .memory:
            guard ifGeneration == nil || ifGeneration == session?.generation else { return }
        case .persistent:
            let ended = try await rows.applyUnlessChanged(
                [.delete(LoginRows.sessionID, ifGeneration: ifGeneration)],
                for: PromptContext(reason: "end the session", container: name))
            guard ended != nil else { return }
        }
        session = nil
        // Who logged out is not let in again by the proof of a moment ago.
        keystore.endReuse()
        observers.tell(reason)
    }
}
