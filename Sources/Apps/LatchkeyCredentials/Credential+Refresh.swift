public import FoundationEssentials
internal import Latchkey

extension Credential {
    /// Gets a new token from the server, stores it, then returns it.
    ///
    /// Tasks and programs that refresh one credential at the same time share one request.
    /// Cancelling a task does not cancel the refresh. The credential's id, and the parts that the
    /// server does not renew, stay.
    ///
    /// - Parameter reason: The reason in the prompt: see ``token(reason:)``.
    /// - Returns: The new token.
    /// - Throws: ``CredentialError``: `missingToken` without a refresh token, `signInAgain` if the
    ///   server no longer accepts it, `network`, `notFound` if the credential was removed;
    ///   `invalidToken`, `invalidResponse` or `unsupported` for a response that cannot be trusted.
    ///   `KeystoreError`, also `cancelled` if the store was locked during the refresh. The
    ///   old token then stays in use. The server's response is stored, sealed (in memory if the
    ///   store fails). The next refresh validates it again, and uses its refresh token.
    @discardableResult
    public func refresh(reason: String? = nil) async throws -> Token {
        try await store.refreshes.join(id) {
            do {
                let token = try await self.refreshInTurn(reason)
                self.store.publish(.refreshed(self))
                return token
            } catch {
                self.store.publish(.refreshFailed(self, error))
                throw error
            }
        }
    }

    /// Whether a task of this process refreshes the token now. A further refresh then waits for the
    /// same answer.
    public var isRefreshing: Bool { store.refreshes.isRunning(id) }

    /// Refreshes the token if it has expired, expires soon, or was issued in the future because the
    /// clock was set back. Decides that without opening it. A token without an expiry or a refresh
    /// token is not refreshed.
    ///
    /// - Parameters:
    ///   - graceInterval: How many seconds before the expiry; nil for the store's. At most half of
    ///     the token's lifetime counts, so that a short-lived token is not refreshed all the time.
    ///   - reason: The reason in the prompt: see ``token(reason:)``.
    public func refreshIfNeeded(
        graceInterval: TimeInterval? = nil, reason: String? = nil
    ) async throws {
        let metadata = try metadata
        guard metadata.isRefreshable else { return }
        let grace = graceInterval ?? store.configuration.graceInterval
        let now = store.configuration.clock.now
        guard let due = RefreshSchedule.dueDate(of: metadata, grace: grace, at: now) else { return }
        if now >= due { try await refresh(reason: reason) }
    }

    /// Only one process at a time refreshes: a server may accept a refresh token once, and treat a
    /// second use as theft.
    private func refreshInTurn(_ reason: String?) async throws -> Token {
        let operation = "refresh the credential"
        guard try metadata.isRefreshable else {
            throw CredentialError.missing("refresh token").during(operation)
        }
        let (rows, id) = (store.rows, id)
        let seen = try await store.disk.run { try rows.tokenGeneration(id) }
        return try await performAtServer(.token, operation, reason) {
            try await store.records.exclusively(on: "credential \(id)") {
                try await refreshAlone(after: seen)
            }
        }
    }

    /// Stores the server's response before it is validated, and returns it after. After a crash in
    /// between, the store has the refresh token that the server still accepts, and the next refresh
    /// uses it.
    private func refreshAlone(after seen: Int?) async throws -> Token {
        var stored = try await stored
        let isRefreshed = stored.tokenGeneration != seen
        if isRefreshed, isUsable(stored.token) { return stored.token }
        var latest = stored.token
        if let pending = try await pendingAnswer(to: stored) {
            latest = pending.token
            if try await isAccepted(pending, after: stored) {
                let old = stored.token.accessToken
                stored = try await adopt(pending, after: stored)
                if stored.token.accessToken != old, isUsable(stored.token) { return stored.token }
            }
        }
        let server = store.server(of: stored.token.context)
        let envelope = try store.records.envelope(
            of: stored.protection, for: CredentialRows.pendingID(id))
        let answer = try await server.exchange(latest, at: store.configuration.clock.now)
        try await keep(answer, in: envelope, after: stored)
        if let flaw = answer.flaw { throw flaw }
        try await server.check(answer, after: stored.token)
        return try await adopt(answer, after: stored).token
    }

    private func isUsable(_ token: Token) -> Bool {
        !token.isExpired(at: store.configuration.clock.now)
    }

    /// - Throws: ``CredentialError`` if the check is not possible now.
    private func isAccepted(_ answer: RefreshAnswer, after stored: StoredCredential) async throws
        -> Bool
    {
        do {
            try await store.server(of: stored.token.context).check(answer, after: stored.token)
            return true
        } catch {
            guard [.invalidToken, .unsupported].contains(error.code) else { throw error }
            return false
        }
    }

    /// The server's latest response, if it is neither in use nor outdated. The token's key must be
    /// open.
    func pendingAnswer(to stored: StoredCredential) async throws -> RefreshAnswer? {
        let (rows, id) = (store.rows, id)
        if let unsaved = store.refreshes.unsaved(id) {
            if unsaved.tokenGeneration == stored.tokenGeneration {
                return try rows.answer(in: unsaved.sealed, to: stored)
            }
            store.refreshes.setUnsaved(nil, id)
        }
        return try await store.disk.run { try rows.pendingAnswer(to: stored) }
    }

    /// Stores the sealed response. Does not need the key, which may have been locked since.
    private func keep(
        _ answer: RefreshAnswer, in envelope: ClassEnvelope, after stored: StoredCredential
    ) async throws {
        let sealed = try envelope.seal(answer.bytes)
        do {
            try await store.records.apply(
                [CredentialRows.deposit(sealed, id)], for: store.prompt("refresh the credential"))
            store.refreshes.setUnsaved(nil, id)
        } catch {
            store.refreshes.setUnsaved(
                UnsavedAnswer(sealed: sealed, tokenGeneration: stored.tokenGeneration), id)
            if try isCurrent(stored) { throw error }
        }
        guard try isCurrent(stored) else { throw await discarded(answer) }
    }

    /// Whether the stored token is still the one that was refreshed.
    private func isCurrent(_ stored: StoredCredential) throws -> Bool {
        try store.rows.tokenGeneration(id) == stored.tokenGeneration
    }

    /// Makes the token of a valid response the stored token.
    private func adopt(_ answer: RefreshAnswer, after stored: StoredCredential) async throws
        -> StoredCredential
    {
        guard store.records.session(stored.protection)?.isOpen == true else {
            throw KeystoreError.cancelled(
                "the store was locked during the refresh; the server's response is stored for the next refresh"
            )
        }
        do {
            try await replace(stored, with: answer.token)
        } catch {
            guard try isCurrent(stored) else { throw await discarded(answer) }
            throw error
        }
        return try await self.stored
    }

    /// Deletes and revokes a response for a credential that was removed during the refresh.
    private func discarded(_ answer: RefreshAnswer) async -> CredentialError {
        store.refreshes.setUnsaved(nil, id)
        let (records, id) = (store.records, id)
        // If this fails, storing a token with this id deletes the row.
        _ = try? await store.disk.run {
            try records.applyNow([.delete(CredentialRows.pendingID(id), ifGeneration: nil)])
        }
        try? await store.server(of: answer.token.context).revoke(.refreshToken, of: answer.token)
        return .notFound(id)
    }

    /// Replaces the token that was read, and its metadata. Keeps the current tags.
    ///
    /// - Parameter pending: The rest of a response that is not in use.
    func replace(_ stored: StoredCredential, with token: Token, pending: RefreshAnswer? = nil)
        async throws
    {
        let (store, id) = (store, id)
        let rest: RecordChange =
            if let pending {
                CredentialRows.deposit(
                    try store.records.envelope(
                        of: stored.protection, for: CredentialRows.pendingID(id)
                    )
                    .seal(pending.bytes), id)
            } else {
                .delete(CredentialRows.pendingID(id), ifGeneration: nil)
            }
        try await store.disk.run {
            guard let (existing, _) = try store.records.readNow(CredentialRows.metadataID(id))
            else {
                throw CredentialError.notFound(id)
            }
            let metadata = CredentialRows.metadata(
                of: token, tags: CredentialRows.tags(of: existing),
                security: stored.protection.policy,
                copying: store.configuration.copiedClaims)
            let isPlain = stored.protection == .device
            // A refresh keeps the key. Its row stays while a credential is bound to it.
            let keepsKey =
                CredentialRows.boundKey(of: existing)?.thumbprint == token.context.boundKey
            try store.records.applyNow(
                [
                    CredentialRows.replacement(stored, with: token),
                    .put(metadata, payload: nil, ifGeneration: existing.generation), rest,
                ] + (keepsKey ? [] : store.keys.insertion(of: token.context)),
                classes: isPlain ? [.expectNone(prefix: CredentialRows.classes(id).prefix)] : [])
        }
        store.refreshes.setUnsaved(nil, id)
        store.publishUnsearchableClaims(of: token, self)
    }
}
