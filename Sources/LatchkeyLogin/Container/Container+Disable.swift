internal import FoundationEssentials
internal import Latchkey

extension Container {
    /// Deletes the key, and has the server remove it where it has an endpoint for that. Asks nobody: whoever can
    /// write the store can destroy a key.
    ///
    /// Where the hardware can take the key back it does so: no copy of the store logs in with it any more, whatever its PIN
    /// is there. What it can't do at once is noted, and done at the next call that enables or disables.
    ///
    /// The steps are those of the design: (1) the key is deleted; (2) that there was none is kept in mind; (3) the
    /// server is asked to remove the identity; (4) that it knows none is thrown at once; (5) if it removed one, (2) is
    /// forgotten; (6) otherwise thrown. A crash or a failure after (1) leaves biometric login disabled here and the
    /// name of the key in mind, so that calling again asks the server again.
    ///
    /// Whether (3) will be possible is found out before (1): without a session, or without the network, nothing is
    /// changed. A server that has no such endpoint is asked nothing.
    ///
    /// A token gives up the private half of a guarded key to its owner only, and some tokens to nobody. Since nobody is
    /// asked, that half then **stays on the token**, where it signs nothing without the owner's PIN and this library
    /// doesn't use it any more: it has no row, and the server is asked to forget its public half. To destroy it too, use
    /// the token's own tool, or `Keystore.delete(_:for:authorizedBy:)` with the key that `enableBiometric()`
    /// returned.
    ///
    /// - Parameter force: Disables on this device only, even if the key belongs to another server, and sends no request.
    ///   The key's own server gets the removal request the next time biometric login is enabled or disabled there.
    /// - Throws: ``LoginError``; `notEnabled`, `unauthenticated`, or `identityNotFound` with biometric login disabled;
    ///   `KeystoreError`, with it disabled where the hardware can't take the key back now.
    public func disableBiometric(force: Bool = false) async throws {
        let operation = "disable biometric login"
        if !force { try await checkServer(operation) }
        try? await finish { [records] in try await records.finishRevocations() }
        guard !force else { return try await deleteKeysHere() }
        guard try await hasBiometricRows() else { throw LoginError.notEnabled(operation) }
        let removal = try await removal(operation)
        let key = try await metadata.key()
        let identities = try await rows.identities(for: prompt("disable biometric login at"))
        let notFound = key == nil ? LoginError.notEnabled(operation) : nil
        let refusal = try await deleteKeys([key, try await metadata.pending()].compactMap { $0?.key })
        try await disableAtServer(key, identities, removal, notFound)
        if let refusal { throw refusal }
    }

    /// Has the server forget what it knows, where it has an endpoint for that.
    private func disableAtServer(
        _ key: BiometricKey?, _ identities: [RegisteredIdentity], _ removal: IdentityRemoval?, _ notFound: LoginError?
    ) async throws {
        guard let identity = identities.first(where: { $0.id == key?.id }) ?? identities.last else {
            if let notFound { throw notFound }
            return
        }
        guard let removal else {
            try await forget(identities.map(\.id))
            if let notFound { throw notFound }
            return
        }
        try await finish { try await self.remove(identity.id, removal) }
        try? await finish { try await self.removeLeftovers(removal) }
    }

    /// Whether there is anything to disable.
    func hasBiometricRows() async throws -> Bool {
        if try await metadata.key() != nil { return true }
        if try await metadata.pending() != nil { return true }
        return try await !metadata.identityRows(at: configuredServer).isEmpty
    }

    /// What it takes to remove an identity from the server; nil when the server has no endpoint for it.
    func removal(_ operation: String) async throws -> IdentityRemoval? {
        let server = try await server(for: operation)
        guard let endpoint = server.document.biometricRemoval else { return nil }
        let recovery = "Log in or authenticate first, or use ‘force’ to disable it on this device only."
        let (session, access) = try await accessibleSession(operation, recovery: recovery)
        if let owner = try await metadata.key()?.userID, owner != session.userID {
            throw LoginError.userMismatch(operation)
        }
        return IdentityRemoval(server: server, endpoint: endpoint, userID: session.userID, access: access)
    }

    /// Removes one identity from the server, then its row.
    func remove(_ identity: KeyID, _ removal: IdentityRemoval) async throws {
        do {
            try await removal.server.removeIdentity(identity, at: removal.endpoint, access: removal.access)
        } catch {
            if error.code == .identityNotFound { try await forget([identity]) }
            throw error
        }
        try await forget([identity])
    }

    /// Removes from the server what earlier attempts have left there: every identity of the user that has no key here.
    func removeLeftovers(_ removal: IdentityRemoval) async throws {
        let current = try await metadata.key()?.id
        let identities = try await rows.identities(for: prompt("disable biometric login at"))
        for identity in identities where identity.id != current && identity.userID == removal.userID {
            do {
                try await remove(identity.id, removal)
            } catch let error as LoginError where error.code == .identityNotFound {
                continue
            }
        }
    }

    /// Forgets that the server may know these.
    func forget(_ identities: [KeyID]) async throws {
        try await rows.apply(
            identities.map { LoginRows.delete(identity: $0) }, for: prompt("disable biometric login at"))
    }

    /// A key that is not revocable first, since a token may say no. A revocable one is noted with the deletion of its row.
    ///
    /// - Returns: Why the hardware could not take back what it can take back.
    private func deleteKeys(_ keys: [HardwareKey]) async throws -> KeystoreError? {
        for key in keys where !key.isRevocable { try await deleteUnlessKept(key) }
        try await deleteKeyRows()
        return await takeBack(keys)
    }

    private func takeBack(_ keys: [HardwareKey]) async -> KeystoreError? {
        var failure: KeystoreError?
        for key in keys where key.isRevocable {
            do throws(KeystoreError) { try await records.discard(key) } catch { failure = failure ?? error }
        }
        return failure
    }

    /// A token that gives up no key does not keep the login enabled: without its row nobody uses the key.
    private func deleteUnlessKept(_ key: HardwareKey) async throws(KeystoreError) {
        do {
            try await keystore.delete(key)
        } catch {
            guard error.code == .unsupported else { throw error }
        }
    }

    /// Rows that can't be read any more are deleted too.
    private func deleteKeysHere() async throws {
        let keys = [try? await metadata.key(), try? await metadata.pending()].compactMap { $0?.key }
        for key in keys where !key.isRevocable { try? await keystore.delete(key) }
        try await deleteKeyRows()
        _ = await takeBack(keys)
    }

    private func deleteKeyRows() async throws {
        keystore.endReuse()
        try await rows.apply(
            LoginRows.deleteKey(ifGeneration: nil) + [.delete(LoginRows.pendingID, ifGeneration: nil)],
            for: prompt("disable biometric login at"))
    }
}
