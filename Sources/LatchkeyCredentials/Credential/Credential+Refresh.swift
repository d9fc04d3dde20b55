public import FoundationEssentials
internal import Latchkey

extension Credential {
    private static let refreshing = "refresh the credential"

    /// Gets a new token from the server and stores it; only then anybody sees it.
    ///
    /// Tasks and programs that refresh one credential at the same time share one request. Cancelling a task does not
    /// cancel the refresh. The credential's id, and what the server does not renew, stay.
    ///
    /// - Returns: The new token.
    /// - Throws: ``CredentialError``: `missingToken` without a refresh token, `signInAgain` when the server takes it no
    ///   more, `network`, `notFound` when the credential was removed; `invalidToken`, `invalidResponse` or `transient`
    ///   for an answer that can't be trusted, now or ever; `KeystoreError`, also `cancelled` when the store was locked
    ///   meanwhile. The old token then stays in use, and what the server gave is kept, sealed (in memory where the store
    ///   fails): the next refresh looks at it again, and goes on with its refresh token.
    @discardableResult
    public func refresh() async throws -> Token {
        try await store.refreshes.join(id) {
            do {
                let token = try await self.refreshInTurn()
                self.store.tell(.refreshed(self))
                return token
            } catch {
                self.store.tell(.refreshFailed(self, error))
                throw error
            }
        }
    }

    /// Refreshes the token if it has ended or ends soon, or is from the future, because the clock was set back. Whether it
    /// does is known without opening it. A token without an end, or without a refresh token, is left as it is.
    ///
    /// - Parameter graceInterval: How many seconds before the end; nil for the store's. At most half of the token's
    ///   life, so that a short-lived token is not refreshed all the time.
    public func refreshIfNeeded(graceInterval: TimeInterval? = nil) async throws {
        let metadata = try metadata
        guard metadata.isRefreshable else { return }
        let grace = graceInterval ?? store.configuration.graceInterval
        let now = store.configuration.clock.now
        guard let due = RefreshSchedule.dueDate(of: metadata, grace: grace, at: now) else { return }
        if now >= due { try await refresh() }
    }

    /// One process at a time: a server may take a refresh token once, and its second use for theft.
    private func refreshInTurn() async throws -> Token {
        guard try metadata.isRefreshable else { throw CredentialError.missing(Self.refreshing, "refresh token") }
        let (rows, id) = (store.rows, id)
        let seen = try await store.disk.run { try rows.tokenGeneration(id) }
        return try await withOpen(Self.refreshing) {
            try await store.records.exclusively(on: "credential \(id)", for: Self.refreshing) {
                try await refreshAlone(after: seen)
            }
        }
    }

    /// The server's answer is stored before anybody looks at it, and shown when it is found to be good: whatever happens
    /// in between, the refresh token that the server still takes is here, and the next refresh goes on from it.
    private func refreshAlone(after seen: Int?) async throws -> Token {
        var stored = try await stored(Self.refreshing)
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
        let client = store.client(stored.token.context)
        let envelope = try store.records.envelope(of: stored.protection, for: CredentialRows.pendingID(id))
        let answer = try await client.exchange(latest)
        try await keep(answer, in: envelope, after: stored)
        if let flaw = answer.flaw { throw flaw }
        try await client.check(answer, after: stored.token)
        return try await adopt(answer, after: stored).token
    }

    private func isUsable(_ token: Token) -> Bool { !token.isExpired(at: store.configuration.clock.now) }

    /// - Throws: ``CredentialError`` when it can't be decided now.
    private func isAccepted(_ answer: RefreshAnswer, after stored: StoredCredential) async throws -> Bool {
        do {
            try await store.client(stored.token.context).check(answer, after: stored.token)
            return true
        } catch {
            guard error.code == .invalidToken else { throw error }
            return false
        }
    }

    /// What the server gave last, and what was neither shown nor overtaken. The token's class must be open.
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

    /// Makes the answer durable, sealed. It needs nobody, and not the class: that may have been locked meanwhile.
    private func keep(_ answer: RefreshAnswer, in envelope: ClassEnvelope, after stored: StoredCredential) async throws
    {
        let sealed = try envelope.seal(answer.bytes)
        do {
            try await store.records.apply([CredentialRows.deposit(sealed, id)], for: store.prompt(Self.refreshing))
            store.refreshes.setUnsaved(nil, id)
        } catch {
            store.refreshes.setUnsaved(UnsavedAnswer(sealed: sealed, tokenGeneration: stored.tokenGeneration), id)
            if try isStanding(stored) { throw error }
        }
        guard try isStanding(stored) else { throw await discarded(answer) }
    }

    /// Whether the token is still the one that was refreshed, and not removed, or removed and stored anew.
    private func isStanding(_ stored: StoredCredential) throws -> Bool {
        try store.rows.tokenGeneration(id) == stored.tokenGeneration
    }

    /// Shows the token of an answer that was found to be good. Until that is done nobody sees it.
    private func adopt(_ answer: RefreshAnswer, after stored: StoredCredential) async throws -> StoredCredential {
        guard store.records.session(stored.protection)?.isOpen == true else {
            throw KeystoreError.cancelled(
                Self.refreshing, "it was locked meanwhile; what the server gave is kept for the next time")
        }
        do {
            try await replace(stored, with: answer.token)
        } catch {
            guard try isStanding(stored) else { throw await discarded(answer) }
            throw error
        }
        return try await self.stored(Self.refreshing)
    }

    /// It was removed meanwhile: what the server gave must not outlive it.
    private func discarded(_ answer: RefreshAnswer) async -> CredentialError {
        store.refreshes.setUnsaved(nil, id)
        let (records, id) = (store.records, id)
        // Whoever stores a token of this name again clears its place too.
        _ = try? await store.disk.run {
            try records.applyNow([.delete(CredentialRows.pendingID(id), ifGeneration: nil)])
        }
        try? await store.client(answer.token.context).revoke(.refreshToken, of: answer.token)
        return .notFound(Self.refreshing, id)
    }

    /// Puts a token, and what is known of it, in the place of the one that was read. Tags that were changed meanwhile
    /// stay changed.
    ///
    /// - Parameter pending: What stays of an answer that is not shown.
    func replace(_ stored: StoredCredential, with token: Token, pending: RefreshAnswer? = nil) async throws {
        let (store, id) = (store, id)
        let rest: RecordChange =
            if let pending {
                CredentialRows.deposit(
                    try store.records.envelope(of: stored.protection, for: CredentialRows.pendingID(id))
                        .seal(pending.bytes), id)
            } else {
                .delete(CredentialRows.pendingID(id), ifGeneration: nil)
            }
        try await store.disk.run {
            guard let (standing, _) = try store.records.readNow(CredentialRows.metadataID(id)) else {
                throw CredentialError.notFound(Self.refreshing, id)
            }
            let metadata = CredentialRows.metadata(
                of: token, tags: CredentialRows.tags(of: standing), security: stored.protection.policy,
                copying: store.configuration.copiedClaims)
            let isPlain = stored.protection == .device
            try store.records.applyNow(
                [
                    CredentialRows.replacement(stored, with: token),
                    .put(metadata, payload: nil, ifGeneration: standing.generation), rest,
                ],
                classes: isPlain ? [.expectNone(prefix: CredentialRows.classes(id).prefix)] : [])
        }
        store.refreshes.setUnsaved(nil, id)
    }
}
