internal import FoundationEssentials
internal import Latchkey

extension Container {
    /// Whether this device has a session. Does not prompt.
    public var sessionState: SessionState {
        get async throws {
            if try await sessionGeneration() == nil { return .noSession }
            // A session in memory is always of this device.
            if configuration.tokenStorage == .persistent, try await records.isForeign() {
                return .noSession
            }
            return .authenticated
        }
    }

    /// The current state (reason `noToken` or `foundToken`), then every change that this container
    /// makes, after it is stored.
    public func changes() async throws -> AsyncStream<SessionStateChange> {
        let reason: SessionStateChange.Reason =
            try await sessionState == .authenticated ? .foundToken : .noToken
        return observers.stream(startingWith: SessionStateChange(reason))
    }

    /// An access token for the app's own requests, refreshed if it is about to expire. Send it as a
    /// bearer token, and only to the app's servers. If the server binds it to this machine,
    /// ``authorizeRequest(_:nonce:)`` adds the proof that each request then needs.
    ///
    /// Access tokens are not stored: a process that has not logged in gets a new one first, which
    /// needs the network.
    ///
    /// - Throws: ``LoginError``; `unauthenticated` without a session.
    public var accessToken: String {
        get async throws {
            do { return try await accessibleSession().access.value } catch {
                throw error.during("get an access token")
            }
        }
    }

    /// The server's claims about the user.
    ///
    /// - Throws: ``LoginError``; `unauthenticated` without a session. If the server has ended the
    ///   session, the session on this device ends too.
    public func fetchUserInfo() async throws -> UserInfo {
        do {
            let (session, access) = try await accessibleSession()
            do {
                return try await server(of: session).userInfo(of: session.userID, access: access)
            } catch let error as LoginError where error.isInvalidGrant {
                throw try await ended(session, after: error)
            }
        } catch {
            throw error.during("fetch the user's data")
        }
    }

    /// Ends the session on the server and on this device. By default it also disables biometric
    /// login, so that another user can log in. The last user's id is kept, the name is deleted.
    ///
    /// If the session has already ended, here or at the server, this call deletes the key on this
    /// device. The same user's next login on this device removes the key from the server.
    ///
    /// Only the current session ends. Each login begins another session at the server, and the
    /// session that it replaces on this device is not revoked: it ends at the server when it
    /// expires, or when the server ends it.
    ///
    /// Without a network nothing changes, unless `force`. If the network fails during the call,
    /// biometric login can be disabled and the session kept; the next call continues.
    ///
    /// - Parameters:
    ///   - keepBiometric: Keeps the key, so that only the same user can log in with it again.
    ///   - force: Removes the login from this device even if the server refuses or cannot be
    ///     reached. A login that belongs to another server is removed from this device, and no
    ///     request is sent.
    /// - Throws: ``LoginError``, or `KeystoreError`; without `force` the session is then kept.
    public func logout(keepBiometric: Bool = false, force: Bool = false) async throws {
        do {
            if !force { try await checkServer() }
            let hasKey = if force { true } else { try await unverified.key() != nil }
            if hasKey && !keepBiometric {
                do {
                    try await disableBiometric(force: force)
                } catch let error as LoginError
                    where error.code == .identityNotFound || error.code == .notEnabled
                {
                    // The key is already removed.
                } catch let error as LoginError
                    where error.code == .unauthenticated || error.isInvalidGrant
                {
                    // The session has ended. The user's next login on this device removes the key
                    // from the server.
                    try await disableBiometric(force: true)
                } catch let error as LoginError
                    where error.recoveryAction.actions.contains(.forceDisable)
                {
                    throw error.with(
                        recovery: Recovery(
                            "The session is kept. Try again, or ask the server's operator.",
                            .forceLogout))
                }
            }
            do {
                if force { try await checkServer() }
                try await removeEarlierSession()
                if let session = try await currentSession() {
                    try await server().revoke(session.refreshToken)
                }
            } catch  where force {
                // The session on the server expires later. Another server gets no request.
            }
            try await endSession(.logout, ifGeneration: nil)
        } catch {
            throw error.during("log out")
        }
    }

    /// Deletes the session on this device, and sends no request. Biometric login stays enabled.
    public func clear() async throws {
        do { try await endSession(.clear, ifGeneration: nil) } catch {
            throw error.during("end the session")
        }
    }

    // MARK: Helpers

    /// The session and an access token that does not expire soon.
    func accessibleSession(
        recovery: String = "Log in, then try again."
    ) async throws -> (session: LoginSession, access: LoginAccessToken) {
        let hadSession = try await sessionGeneration() != nil
        guard let session = try await refreshedSession(), let access = session.access else {
            throw LoginError.unauthenticated(
                hadSession ? "the session has ended" : "no user is logged in",
                recovery: recovery)
        }
        return (session, access)
    }

    /// The prompt of a container whose rows the hardware opens only with a PIN.
    var sessionPrompt: PromptContext { prompt("use the session at") }

    /// The generation of the session, or nil without one. Does not use the hardware.
    func sessionGeneration() async throws -> Int? {
        switch configuration.tokenStorage {
        case .memory: session?.generation
        case .persistent: try await unverified.sessionGeneration()
        }
    }

    /// The session, read again if another process has changed it.
    func currentSession() async throws -> LoginSession? {
        guard let generation = try await sessionGeneration() else {
            session = nil
            return nil
        }
        if let session, session.generation >= generation { return session }
        let stored = try await rows.session(for: sessionPrompt)
        // Generations only increase: a session that another task has stored is newer than the one
        // read here.
        if let stored, stored.generation <= session?.generation ?? 0 { return session }
        session = stored
        return stored
    }

    /// Revokes and deletes the session that this container stored with another
    /// ``TokenStorage``: a container with tokens in memory leaves no refresh token on the disk.
    ///
    /// - Throws: ``LoginError`` with code `network`; the next operation repeats it. If the server
    ///   answers with an error, the session is deleted.
    func removeEarlierSession() async throws {
        guard configuration.tokenStorage == .memory,
            try await unverified.sessionGeneration() != nil,
            let earlier = try await rows.session(for: sessionPrompt)
        else { return }
        do {
            try await server().revoke(earlier.refreshToken)
        } catch let error as LoginError
            where error.code != .network && error.code != .cancelled
        {}
        _ = try await rows.applyUnlessChanged(
            [.delete(LoginRows.sessionID, ifGeneration: earlier.generation)], for: sessionPrompt)
    }

    /// Stores a session and other rows in one transaction, then makes it the current session.
    ///
    /// - Parameter ifGeneration: The generation of the session that it replaces, or nil for any.
    /// - Returns: The stored session, or nil, with nothing changed, if the stored session has
    ///   another generation.
    func store(_ session: LoginSession, _ changes: [RecordChange] = [], ifGeneration: Int?)
        async throws
        -> LoginSession?
    {
        var session = session
        switch configuration.tokenStorage {
        case .memory:
            if !changes.isEmpty { try await rows.apply(changes, for: sessionPrompt) }
            guard ifGeneration == nil || ifGeneration == self.session?.generation else {
                return nil
            }
            memoryGeneration += 1
            session.generation = memoryGeneration
        case .persistent:
            let all = try changes + [rows.put(session, ifGeneration: ifGeneration)]
            guard let stored = try await rows.applyUnlessChanged(all, for: sessionPrompt)?.last
            else { return nil }
            session.generation = stored.generation
        }
        self.session = session
        return session
    }

    /// Ends a session that the server has ended, unless another process has replaced it.
    ///
    /// - Returns: The server's refusal, which then says that the session has ended.
    func ended(_ session: LoginSession, after refusal: LoginError) async throws -> LoginError {
        try await endSession(.invalid, ifGeneration: session.generation)
        return try await sessionGeneration() == nil ? refusal.withEndedSession : refusal
    }

    /// Deletes the session and the user's name, unless the session has another generation.
    func endSession(_ reason: SessionStateChange.Reason, ifGeneration: Int?) async throws {
        var stored = ifGeneration
        if configuration.tokenStorage == .memory {
            guard ifGeneration == nil || ifGeneration == session?.generation else { return }
            // The row of an earlier session.
            stored = nil
        }
        var changes: [RecordChange] = [
            .delete(LoginRows.sessionID, ifGeneration: stored), LoginRows.deleteName,
        ]
        var key: HardwareKey?
        // Sessions in the memory of other programs may use the key.
        if configuration.tokenStorage == .persistent {
            key = try? await unverified.dpopKey()
            changes.append(.delete(LoginRows.dpopID, ifGeneration: nil))
        }
        guard try await rows.applyUnlessChanged(changes, for: sessionPrompt) != nil else { return }
        session = nil
        if let key {
            lastProver = nil
            // Only a token keeps data of the key, and may refuse to delete it.
            try? await records.discard(key)
        }
        // A verification from before the logout must not authorize the next use.
        keystore.endReuse()
        observers.tell(SessionStateChange(reason))
    }
}
