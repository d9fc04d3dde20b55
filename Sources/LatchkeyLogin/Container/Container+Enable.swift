internal import FoundationEssentials
public import Latchkey

extension Container {
    /// Makes a key for the user who is logged in, and registers it with the server. The person is asked once.
    ///
    /// The order is such that a crash leaves biometric login either disabled or enabled here and on the server, and
    /// never a key on the server whose name was forgotten here:
    /// 1. the session is refreshed, the key made in the hardware: a crash leaves nothing, or what the hardware is noted to
    ///    take back at the next call;
    /// 2. a row says that this key is about to be registered; only one process can have it: a crash leaves it to the
    ///    next call, which takes its place and has the server remove that key;
    /// 3. the server is asked, and says that it has the key;
    /// 4. one transaction makes that row into the key's row.
    ///
    /// Where the hardware can revoke keys, it can revoke this one: ``BiometricKey/isRevocable``. Where it refuses, the key is
    /// made without revocation, and ``BiometricKey/notRevocableReason`` says why.
    ///
    /// - Parameters:
    ///   - policy: Who must be present when the key is used; nil for the configured policy, or what
    ///     ``ContainerConfiguration/policy`` says in its place.
    ///   - replacing: Whether an enabled key gives way. The old one stays until the new one is stored.
    /// - Throws: ``LoginError``; `unauthenticated` without a session, `conflict` when it is enabled already or another
    ///   process is enabling it; `KeystoreError`. Nothing is enabled then.
    @discardableResult
    public func enableBiometric(policy: AccessPolicy? = nil, replacing: Bool = false) async throws -> BiometricKey {
        let operation = "enable biometric login"
        try await checkServer(operation)
        let standing = try await metadata.key()
        guard standing == nil || replacing else { throw Self.isEnabled(operation) }
        let abandoned = try await metadata.pending()
        // What earlier calls left in the hardware is in the way of nothing but room.
        try? await finish { [records] in try await records.finishRevocations() }
        let (session, access) = try await accessibleSession(operation)
        let server = try await server(for: operation)
        let prompt = prompt("enable biometric login at")
        let policy = if let policy { policy } else { await preferredPolicy() }
        let consent = SingleConsent(presence)
        let made = try await records.createKey(
            KeyRequest(policy: policy, label: endpoint.authority, prompt: prompt), revocably: .preferred,
            authorizedBy: consent)
        consent.confirm()
        let enrolment = Enrolment(
            made: made, userID: session.userID, idToken: session.idToken, standing: standing, abandoned: abandoned,
            server: server, prompt: prompt)
        let reservation = try await reserve(enrolment)
        do {
            let (challenge, date) = try await server.challenge()
            if let clock = ClockCheck(server: date, device: now), clock.isHopeless {
                throw LoginError.clockSkew(operation, seconds: clock.ahead)
            }
            let jwt = try await signedRequest(
                .setup, challenge, made.key, for: server.audience(for: standing), prompt, consent)
            try await register(jwt, enrolment, access)
        } catch let error as RegistrationUncertain {
            // What can't be tidied up now is found by the next call; the cause is what the caller must hear of.
            _ = try? await finish { try await self.leave(enrolment, reservation, access) }
            throw error.cause
        } catch {
            _ = try? await finish { try await self.release(enrolment, reservation) }
            if let error = error as? LoginError, error.isInvalidGrant, !error.isInvalidCredentials {
                try await endSession(.invalid, ifGeneration: session.generation)
            }
            // Nobody else knows of the key but who took our place.
            if (error as? KeystoreError)?.code == .invalidated { throw Self.lostRace(operation) }
            throw error
        }
        return try await finish { try await self.commit(enrolment, reservation, access) }
    }

    // MARK: The steps

    /// Step 2.
    ///
    /// - Returns: The generation of the reservation's row.
    private func reserve(_ enrolment: Enrolment) async throws -> Int {
        do {
            // Verified: what is written about the abandoned key decides which key the server is asked to remove.
            let abandoned = enrolment.abandoned == nil ? nil : try await rows.pending(for: enrolment.prompt)
            var changes = [
                rows.put(pending: enrolment.key, owner: enrolment.userID, ifGeneration: abandoned?.generation ?? 0)
            ]
            if let abandoned {
                changes.append(rows.put(identity: .init(id: abandoned.id, userID: abandoned.userID)))
            }
            guard let stored = try await rows.applyUnlessChanged(changes, for: enrolment.prompt)?.first else {
                throw Self.lostRace(enrolment.server.operation)
            }
            // Nobody can enable a key without the row that is ours now; this is whether somebody did just before.
            guard try await metadata.key()?.generation == enrolment.standing?.generation else {
                try await rows.apply(
                    [.delete(LoginRows.pendingID, ifGeneration: stored.generation)], for: enrolment.prompt)
                throw Self.lostRace(enrolment.server.operation)
            }
            if let abandoned { try await records.discard(abandoned.key) }
            return stored.generation
        } catch {
            try? await records.discard(enrolment.key)
            throw error
        }
    }

    /// Step 3.
    private func register(
        _ jwt: String, _ enrolment: Enrolment, _ access: AccessToken
    ) async throws {
        do {
            try await enrolment.server.setUp(jwt: jwt, access: access)
        } catch {
            guard error.isDefiniteRefusal else { throw RegistrationUncertain(cause: error) }
            throw error
        }
    }

    /// Step 4.
    private func commit(_ enrolment: Enrolment, _ reservation: Int, _ access: AccessToken) async throws -> BiometricKey
    {
        let identity = RegisteredIdentity(id: enrolment.key.id, userID: enrolment.userID)
        let standing = enrolment.standing
        let changes: [RecordChange] = [
            rows.put(
                enrolment.key, owner: enrolment.userID,
                requiresAudience: enrolment.server.audience(for: standing) != nil,
                ifGeneration: standing?.generation ?? 0),
            rows.put(hint: enrolment.idToken), rows.put(identity: identity),
            .delete(LoginRows.pendingID, ifGeneration: reservation),
        ]
        guard let stored = try await rows.applyUnlessChanged(changes, for: enrolment.prompt)?.first else {
            // Another process has taken our place or disabled: the server must not keep a key that is in no row.
            try await rows.apply([rows.put(identity: identity)], for: enrolment.prompt)
            try? await records.discard(enrolment.key)
            try? await sweep(enrolment, access)
            throw Self.lostRace(enrolment.server.operation)
        }
        if let standing { try? await records.discard(standing.key) }
        try? await sweep(enrolment, access)
        var key = try BiometricKey(stored)
        key.notRevocableReason = enrolment.made.revocabilityRefusal?.reason
        return key
    }

    /// Gives up a key that the server certainly doesn't have.
    private func release(_ enrolment: Enrolment, _ reservation: Int) async throws {
        try? await records.discard(enrolment.key)
        // Whoever has taken our place keeps it.
        _ = try await rows.applyUnlessChanged(
            [.delete(LoginRows.pendingID, ifGeneration: reservation)], for: enrolment.prompt)
    }

    /// Gives up a key that the server may have.
    private func leave(_ enrolment: Enrolment, _ reservation: Int, _ access: AccessToken) async throws {
        let identity = RegisteredIdentity(id: enrolment.key.id, userID: enrolment.userID)
        try await rows.apply([rows.put(identity: identity)], for: enrolment.prompt)
        try await release(enrolment, reservation)
        try? await sweep(enrolment, access)
    }

    /// Has the server remove what is left over, if it can; what fails now is tried again another time.
    private func sweep(_ enrolment: Enrolment, _ access: AccessToken) async throws {
        guard let endpoint = enrolment.server.document.biometricRemoval else {
            let current = try await metadata.key()?.id
            let identities = try await metadata.identityRows(at: configuredServer).compactMap(RegisteredIdentity.init)
            return try await forget(identities.map(\.id).filter { $0 != current })
        }
        try await removeLeftovers(
            IdentityRemoval(
                server: enrolment.server, endpoint: endpoint, userID: enrolment.userID, access: access))
    }

    private static func isEnabled(_ operation: String) -> LoginError {
        LoginError(
            operation: operation, code: .conflict, reason: "it is enabled already",
            recovery: "Use it, or disable it first.")
    }

    private static func lostRace(_ operation: String) -> LoginError {
        LoginError(
            operation: operation, code: .conflict, reason: "another program enabled or disabled it at the same moment",
            recovery: "Look at the status, then try again if you still want to.")
    }
}

/// The server may have registered the key, and may not have.
private struct RegistrationUncertain: Error {
    let cause: LoginError
}
