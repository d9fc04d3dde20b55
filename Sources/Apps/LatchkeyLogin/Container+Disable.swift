internal import FoundationEssentials
internal import Latchkey

extension Container {
    /// Deletes the key, and removes it from the server if the server has an endpoint for that. Does
    /// not prompt: a program that can write the store can destroy a key.
    ///
    /// A revocable key is revoked: no copy of the store can log in with it, whatever the PIN in the
    /// copy. A revocation that the hardware cannot complete now is recorded, and completed at the
    /// next call that enables or disables biometric login.
    ///
    /// Without a session or a network, nothing changes: the server's metadata is read first. Then
    /// the key is deleted, then the server is asked to remove it. A crash or failure after the
    /// deletion, for example of a network that fails during the call, leaves biometric
    /// login disabled on this device, and the name of the key stored: the next call sends the
    /// request again. A server without such an endpoint gets no request.
    ///
    /// A token deletes a PIN-protected private key only with the PIN, and some tokens do not delete
    /// keys. Since this call does not prompt, the private key then **stays on the token**. It needs
    /// the PIN to sign, and this library no longer uses it. To delete it, use the token's own tool,
    /// or `Keystore.delete(_:for:authorizedBy:)` with the key that
    /// ``enableBiometric(policy:replacing:reason:)-(AccessPolicy?,_,_)`` returned.
    ///
    /// - Parameter force: Disables biometric login on this device only, even if the key belongs to
    ///   another server, and sends no request. The key's server gets the removal request the next
    ///   time biometric login is enabled or disabled there.
    /// - Throws: ``LoginError``: `notEnabled` or `unauthenticated`, or `identityNotFound` with
    ///   biometric login disabled. If the server refuses the removal, its error, which says that
    ///   biometric login is disabled on this device. `KeystoreError`, with biometric login disabled,
    ///   if the hardware cannot revoke the key now.
    public func disableBiometric(force: Bool = false) async throws {
        do {
            if !force { try await checkServer() }
            try? await finish { [records] in try await records.finishRevocations() }
            guard !force else { return try await deleteKeysHere() }
            guard try await hasBiometricRows() else { throw LoginError.notEnabled }
            let removal = try await removal()
            let key = try await unverified.key()
            let identities = try await rows.identities(for: removalPrompt)
            let refusal = try await deleteKeys(
                [key, try await unverified.pending()].compactMap { $0?.key })
            if let removal,
                let identity = identities.first(where: { $0.id == key?.id }) ?? identities.last
            {
                do {
                    try await finish { try await self.remove(identity.id, removal) }
                } catch let error as LoginError {
                    // The hardware's refusal too: copies of the store still open the key.
                    guard let refusal else { throw error }
                    throw error.with(
                        reason: "\(error.reason); \(refusal.reason)", recovery: error.recoveryAction
                    )
                }
                try? await finish { try await self.removeLeftovers(removal) }
            } else {
                try await forget(identities.map(\.id))
                if key == nil { throw LoginError.notEnabled }
            }
            if let refusal { throw refusal }
        } catch {
            throw error.during("disable biometric login")
        }
    }

    private var removalPrompt: PromptContext { prompt("disable biometric login at") }

    /// Whether biometric login has rows to delete.
    private func hasBiometricRows() async throws -> Bool {
        if try await unverified.key() != nil { return true }
        if try await unverified.pending() != nil { return true }
        return try await !unverified.identityRows(at: configuredServer).isEmpty
    }

    /// The session for removing identities from the server; nil if the server has no endpoint for
    /// it. An access token and metadata in memory must not hide that there is no network: the key
    /// is deleted next.
    private func removal() async throws -> IdentityRemoval? {
        let server = try await server(isReachable: true)
        guard server.metadata[.biometricRemoval] != nil else { return nil }
        let recovery =
            "Log in or authenticate first, or use ‘force’ to disable it on this device only."
        let (session, access) = try await accessibleSession(recovery: recovery)
        if let owner = try await unverified.key()?.userID, owner != session.userID {
            throw LoginError.userMismatch
        }
        return IdentityRemoval(
            server: try await self.server(of: session), userID: session.userID, access: access)
    }

    /// Removes one identity from the server, then its row.
    private func remove(_ identity: KeyID, _ removal: IdentityRemoval) async throws {
        do {
            try await removal.server.removeIdentity(identity, access: removal.access)
        } catch {
            guard error.code == .identityNotFound else { throw error.withDisabledLogin }
            try await forget([identity])
            throw error
        }
        try await forget([identity])
    }

    /// Removes from the server every identity of the user that has no key on this device. Earlier
    /// attempts left them.
    func removeLeftovers(_ removal: IdentityRemoval) async throws {
        guard try await unverified.login().mayHaveLeftovers else { return }
        for identity in try await rows.identities(for: removalPrompt)
        where identity.userID == removal.userID {
            // Read after the identities: another program may have enabled the key since.
            guard try await unverified.key()?.id != identity.id,
                try await unverified.pending()?.id != identity.id
            else {
                continue
            }
            do {
                try await remove(identity.id, removal)
            } catch let error as LoginError where error.code == .identityNotFound {
                continue
            }
        }
    }

    /// Deletes the rows of these identities.
    func forget(_ identities: [KeyID]) async throws {
        guard !identities.isEmpty else { return }
        try await rows.apply(identities.map { LoginRows.delete(identity: $0) }, for: removalPrompt)
    }

    /// Deletes keys that are not revocable first, since a token may refuse. The deletion of a row
    /// records the revocation of its revocable key.
    ///
    /// - Returns: Why the hardware could not revoke a key.
    private func deleteKeys(_ keys: [HardwareKey]) async throws -> KeystoreError? {
        for key in keys where !key.isRevocable { try await deleteUnlessKept(key) }
        try await deleteKeyRows()
        return await revoke(keys)
    }

    private func revoke(_ keys: [HardwareKey]) async -> KeystoreError? {
        var failure: KeystoreError?
        for key in keys where key.isRevocable {
            do throws(KeystoreError) { try await records.discard(key) } catch {
                failure = failure ?? error
            }
        }
        return failure
    }

    /// A token that cannot delete keys does not keep biometric login enabled: a key without a row
    /// is not used.
    private func deleteUnlessKept(_ key: HardwareKey) async throws(KeystoreError) {
        do {
            try await keystore.delete(key)
        } catch {
            guard error.code == .unsupported else { throw error }
        }
    }

    /// Deletes the keys on this device. Rows that can't be read are deleted too.
    private func deleteKeysHere() async throws {
        let keys = [try? await unverified.key(), try? await unverified.pending()].compactMap {
            $0?.key
        }
        for key in keys where !key.isRevocable { try? await keystore.delete(key) }
        try await deleteKeyRows()
        _ = await revoke(keys)
    }

    private func deleteKeyRows() async throws {
        keystore.endReuse()
        try await rows.apply(
            LoginRows.deleteKey(ifGeneration: nil) + [
                .delete(LoginRows.pendingID, ifGeneration: nil)
            ],
            for: removalPrompt)
    }
}

/// A session that may remove a user's identities from the server.
struct IdentityRemoval: Sendable {
    let server: LoginEndpoints
    let userID: String
    let access: LoginAccessToken
}
