public import FoundationEssentials
internal import Latchkey
internal import Synchronization

extension Credential {
    /// How many locks refreshing credentials share between programs.
    private static let lockCount: UInt8 = 64

    /// Gets a new access token from the server.
    ///
    /// Tasks that ask at the same time share one request, and so do programs: a server takes a rotating refresh token
    /// once. The new token is stored before anybody sees it. Cancelling one who waits does not keep the others from their
    /// token.
    ///
    /// - Returns: The token that is stored now.
    /// - Throws: ``CredentialError``; `missingToken` without a refresh token, `invalidGrant` when the server does not take
    ///   it any more. `KeystoreError`; `unavailable` without a network, what opening a protected token throws, and what
    ///   storing the new one throws: it is then kept in memory, and the next refresh stores it.
    @discardableResult
    public func refresh() async throws -> Token {
        try await unlock()
        let task = work.withLock { work in
            if let standing = work.refreshing { return standing }
            let task = Task {
                defer { self.work.withLock { $0.refreshing = nil } }
                return try await self.refreshAlone()
            }
            work.refreshing = task
            return task
        }
        return try await task.value
    }

    /// Refreshes the token if it ends within so many seconds.
    ///
    /// - Parameter graceInterval: nil for the store's.
    /// - Returns: The token that is stored now.
    @discardableResult
    public func refreshIfNeeded(graceInterval: TimeInterval? = nil) async throws -> Token {
        let token = try await unlock()
        let grace = graceInterval ?? store.configuration.refreshGraceInterval
        guard token.expires(within: grace, of: store.configuration.now()) else { return token }
        return try await refresh()
    }

    private func refreshAlone() async throws -> Token {
        do {
            let seen = try stored().record.generation
            let (token, isNew) = try await store.records.exclusively(
                for: "refresh the token", over: "credential.\((id.utf8.reduce(0) { $0 &* 31 &+ $1 }) % Self.lockCount)"
            ) {
                let standing = try stored()
                // Another program has refreshed it while this one waited.
                guard standing.record.generation == seen else { return (standing.token, false) }
                return (try await refresh(standing.token, standing.record), true)
            }
            if isNew { store.tell(.refreshed(self)) }
            return token
        } catch {
            store.tell(.refreshFailed(self, error))
            throw error
        }
    }

    private func refresh(_ token: Token, _ record: Record) async throws -> Token {
        let refreshed: Token
        if let unsaved = work.withLock({ $0.unsaved }), unsaved.replacing == record.generation {
            refreshed = unsaved.token
        } else {
            refreshed = try await oauth2.refresh(token, "refresh the token")
            work.withLock { $0.unsaved = (refreshed, replacing: record.generation) }
        }
        do throws(KeystoreError) {
            try await keep(refreshed, record)
        } catch {
            guard error.code == .notFound else { throw error }
            // The credential was removed meanwhile: what the server just gave must not outlive it.
            work.withLock { $0.unsaved = nil }
            if let left = refreshed.refreshToken {
                try? await store.client(refreshed.context).revoke(left, kind: .refreshToken)
            }
            throw error
        }
        work.withLock { $0.unsaved = nil }
        return refreshed
    }

    /// Stores the new token in the place and under the protection of the old one.
    private func keep(_ token: Token, _ record: Record) async throws(KeystoreError) {
        let change = try CredentialRows.put(token, in: record.protection, ifGeneration: record.generation)
        do throws(KeystoreError) {
            try await store.records.apply([change], for: store.prompt("store the new token"))
        } catch {
            guard error.code == .conflict, try !store.records.exists(CredentialRows.tokenID(id)) else { throw error }
            throw store.missing(id)
        }
    }
}
