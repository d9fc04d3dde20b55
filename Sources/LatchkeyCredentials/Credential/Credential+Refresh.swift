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
    ///   more, `network`, `invalidToken`, `notFound` when the credential was removed; `KeystoreError` when the store
    ///   fails: then the new token is kept in memory, and the next refresh stores it without asking the server.
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

    /// Refreshes the token if it has ended or ends soon. Whether it does is known without opening it. A token without
    /// an end, or without a refresh token, is left as it is.
    ///
    /// - Parameter graceInterval: How many seconds before the end; nil for the store's. At most half of the token's
    ///   life, so that a short-lived token is not refreshed all the time.
    public func refreshIfNeeded(graceInterval: TimeInterval? = nil) async throws {
        let metadata = try metadata
        guard metadata.isRefreshable else { return }
        let grace = graceInterval ?? store.configuration.graceInterval
        guard let due = RefreshSchedule.dueDate(of: metadata, grace: grace) else { return }
        if store.configuration.clock.now >= due { try await refresh() }
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

    private func refreshAlone(after seen: Int?) async throws -> Token {
        if let unsaved = store.refreshes.unsaved(id) {
            return try await adopt(unsaved.token, after: unsaved.stored)
        }
        let stored = try await stored(Self.refreshing)
        let isRefreshed = stored.tokenGeneration != seen
        if isRefreshed, !stored.token.isExpired(at: store.configuration.clock.now) { return stored.token }
        return try await adopt(store.client(stored.token.context).refresh(stored.token), after: stored)
    }

    /// Stores the token. Until that is done nobody sees it.
    private func adopt(_ token: Token, after stored: StoredCredential) async throws -> Token {
        do {
            try await replace(stored, with: token)
        } catch {
            guard try store.rows.exists(id) else {
                // It was removed meanwhile: what the server gave must not outlive it.
                store.refreshes.setUnsaved(nil, id)
                try? await store.client(token.context).revoke(.refreshToken, of: token)
                throw CredentialError.notFound(Self.refreshing, id)
            }
            let isOvertaken = try store.rows.tokenGeneration(id) != stored.tokenGeneration
            store.refreshes.setUnsaved(isOvertaken ? nil : UnsavedToken(token: token, stored: stored), id)
            throw error
        }
        store.refreshes.setUnsaved(nil, id)
        return token
    }

    /// Puts a token, and what is known of it, in the place of the one that was read. Tags that were changed meanwhile
    /// stay changed.
    func replace(_ stored: StoredCredential, with token: Token) async throws {
        let (store, id) = (store, id)
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
                    .put(metadata, payload: nil, ifGeneration: standing.generation),
                ],
                classes: isPlain ? [.expectNone(prefix: CredentialRows.classes(id).prefix)] : [])
        }
    }
}
