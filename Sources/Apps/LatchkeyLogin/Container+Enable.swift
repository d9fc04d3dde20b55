internal import FoundationEssentials
public import Latchkey
internal import LatchkeyOAuth

extension Container {
    /// Makes a key for the logged-in user, and registers it with the server. Prompts once.
    ///
    /// Does nothing if biometric login is already enabled for this user and server with the
    /// required policy: does not prompt or send a request, and returns the enabled key with
    /// ``BiometricKey/wasAlreadyEnabled``. Only a use of the key shows that the hardware no longer
    /// has it: after ``authenticateBiometric(reason:)`` has thrown `invalidated`, pass `replacing`.
    ///
    /// After a crash, biometric login is either enabled or disabled, on this device and on the
    /// server. The server never has a key whose name this device does not know:
    /// 1. The session is refreshed, and the hardware makes the key. A crash leaves at most a key
    ///   that the next call revokes.
    /// 2. A row records that this key will be registered. Only one process can write it. After a
    ///   crash, the next call replaces it and asks the server to remove the key.
    /// 3. The server registers the key.
    /// 4. One transaction replaces that row with the key's row.
    ///
    /// Where the hardware can revoke keys, ``BiometricKey/key`` is revocable: a copy of the store
    /// from before a PIN change, or from before biometric login was disabled, is then useless. If
    /// the hardware refuses, the key is made without revocation.
    ///
    /// - Parameters:
    ///   - policy: The policy of the key; nil for the policy of ``ContainerConfiguration`` or its
    ///     default.
    ///   - replacing: Whether to replace an enabled key. The old key is kept until the new one is
    ///     stored.
    ///   - reason: The reason in the prompt, as the end of "APPLICATION asks for your PIN to …". If
    ///     nil, it names the server.
    /// - Throws: ``LoginError``: `unauthenticated` without a session and an enabled key; `conflict`
    ///   if biometric login is enabled without a session, for another user or server, or with
    ///   another policy than the required one, or if another process is enabling it. If the server
    ///   refuses with `invalid_grant`, the session on this device ends, unless the description is
    ///   `InvalidCredentials` or `the attestation is not accepted`.
    ///   `KeystoreError`; `invalidInput` for a policy without user verification. The call then
    ///   enables no key.
    @discardableResult @_disfavoredOverload
    public func enableBiometric(
        policy: AccessPolicy? = nil, replacing: Bool = false, reason: String? = nil
    ) async throws -> BiometricKey {
        do {
            return try await enrol(policy, replacing: replacing, reason)
        } catch {
            throw error.during("enable biometric login")
        }
    }

    /// Does the same as the other function of this name. In this overload `.none` means
    /// `AccessPolicy.none`, which is refused, and not nil.
    @discardableResult
    public func enableBiometric(
        policy: AccessPolicy, replacing: Bool = false, reason: String? = nil
    ) async throws -> BiometricKey {
        try await enableBiometric(policy: Optional(policy), replacing: replacing, reason: reason)
    }

    /// ``enableBiometric(policy:replacing:reason:)-(AccessPolicy?,_,_)`` with its defaults, as
    /// Authgear's document spells it.
    @discardableResult
    public func enabledBiometric() async throws -> BiometricKey { try await enableBiometric() }

    private func enrol(
        _ policy: AccessPolicy?, replacing: Bool, _ reason: String?
    ) async throws -> BiometricKey {
        let required = policy ?? configuration.policy
        guard required?.requirement != AccessPolicy.Requirement.none else {
            throw KeystoreError.invalidInput(
                "biometric login needs a policy with user verification")
        }
        try await checkServer()
        let existing = try await unverified.key()
        if let existing, !replacing {
            // On other hardware, opening the records throws `wrongDevice`.
            if try await records.isForeign() {
                try await records.open(.device, for: sessionPrompt, authorizedBy: presence)
            }
            return try await kept(existing, under: required)
        }
        let abandoned = try await unverified.pending()
        // Unfinished revocations of earlier calls only take up space.
        try? await finish { [records] in try await records.finishRevocations() }
        let (session, access) = try await accessibleSession()
        let server = try await server(of: session)
        let prompt = prompt("enable biometric login at", reason: reason)
        let policy =
            if let required { required } else {
                await keystore.preferredPolicy(for: .signing, through: presence)
            }
        let prover = try await prover(for: policy, at: server, access)
        let presence = PresenceSession(presence)
        let made = try await records.createKey(
            KeyRequest(policy: policy, label: endpoint.authority, prompt: prompt),
            revocably: .preferred,
            authorizedBy: presence)
        let enrolment = KeyEnrolment(
            made: made, idToken: session.idToken, existing: existing, abandoned: abandoned,
            removal: IdentityRemoval(server: server, userID: session.userID, access: access),
            prompt: prompt)
        let reservation = try await reserve(enrolment)
        var isSent = false
        do {
            let (challenge, date) = try await server.challenge()
            if let clock = ClockCheck(server: date, device: now), clock.isHopeless {
                throw LoginError.clockSkew(seconds: clock.ahead, keepsKey: false)
            }
            let jwt = try await signedRequest(
                .setup, challenge, with: made.key, audience: server.audience(for: existing),
                for: prompt, authorizedBy: presence)
            let attestation = try await prover?.statement(
                about: made.key, challenge: challenge.token)
            isSent = true
            try await server.register(
                jwt: jwt,
                attestation: try attestation.map {
                    String(decoding: try JSONEncoder().encode($0), as: UTF8.self)
                },
                access: access)
        } catch {
            if isSent, (error as? LoginError)?.isDefiniteRefusal != true {
                // The server may have registered the key. The next call repeats a failed cleanup.
                _ = try? await finish { try await self.leave(enrolment, reservation) }
                throw error
            }
            _ = try? await finish { try await self.release(enrolment, reservation) }
            if let error = error as? LoginError, error.isInvalidGrant, !error.isInvalidCredentials {
                throw try await ended(session, after: error)
            }
            // Only another process that replaced the reservation can have revoked the key.
            if (error as? KeystoreError)?.code == .invalidated { throw Self.lostRace }
            throw error
        }
        return try await finish { try await self.commit(enrolment, reservation) }
    }

    /// Prepares the proof that the new key is in hardware. Reports a requirement that the key
    /// cannot meet before it exists.
    ///
    /// - Returns: nil if the server gets no proof.
    private func prover(
        for policy: AccessPolicy, at server: LoginEndpoints, _ access: LoginAccessToken
    ) async throws -> KeyProver<LoginErrorCode>? {
        guard let prover = try await KeyProver(server.client, keystore) else { return nil }
        try prover.check(policy)
        try await prover.prepare(
            authorization: access.authorization, now: now, isAgreed: configuration.disclosesHardware
        )
        return prover
    }

    /// The enabled key, if it belongs to the logged-in user and has the required policy. The next
    /// authentication verifies its row.
    ///
    /// - Parameter required: nil for any policy.
    /// - Throws: ``LoginError`` with code `conflict` for another user or policy, or without a
    ///   session.
    private func kept(_ key: BiometricKey, under required: AccessPolicy?) async throws
        -> BiometricKey
    {
        let user: String? =
            switch configuration.tokenStorage {
            case .memory: session?.userID
            case .persistent:
                try await unverified.sessionGeneration() == nil ? nil : unverified.lastUser()
            }
        guard user == key.userID else {
            throw LoginError(
                code: .conflict,
                reason: user == nil
                    ? "biometric login is already enabled"
                    : "biometric login is already enabled for another user",
                // Without a session, the server does not remove the key.
                recovery: user == nil
                    ? Recovery("Log in with it.", .authenticate)
                    : Recovery("Log in with it, or disable it first.", .authenticate, .disable))
        }
        guard required == nil || required == key.key.policy else {
            throw LoginError(
                code: .conflict,
                reason: "biometric login is already enabled with the policy ‘\(key.key.policy)’",
                recovery: Recovery(
                    "To make a key with another policy, disable biometric login first.", .disable))
        }
        var key = key
        key.wasAlreadyEnabled = true
        return key
    }

    // MARK: The steps

    /// Step 2.
    ///
    /// - Returns: The generation of the reservation's row.
    private func reserve(_ enrolment: KeyEnrolment) async throws -> Int {
        do {
            // Read verified, because it decides which key the server is asked to remove.
            let abandoned =
                enrolment.abandoned == nil ? nil : try await rows.pending(for: enrolment.prompt)
            var changes = [
                rows.put(
                    pending: enrolment.key, owner: enrolment.removal.userID,
                    ifGeneration: abandoned?.generation ?? 0)
            ]
            if let abandoned {
                changes.append(
                    rows.put(identity: .init(id: abandoned.id, userID: abandoned.userID)))
            }
            guard
                let stored = try await rows.applyUnlessChanged(changes, for: enrolment.prompt)?
                    .first
            else {
                throw Self.lostRace
            }
            // No other process can enable a key while this one holds the reservation. One may have
            // done so before.
            guard try await unverified.key()?.generation == enrolment.existing?.generation else {
                try await rows.apply(
                    [.delete(LoginRows.pendingID, ifGeneration: stored.generation)],
                    for: enrolment.prompt)
                throw Self.lostRace
            }
            if let abandoned { try await records.discard(abandoned.key) }
            return stored.generation
        } catch {
            try? await records.discard(enrolment.key)
            throw error
        }
    }

    /// Step 4.
    private func commit(_ enrolment: KeyEnrolment, _ reservation: Int) async throws -> BiometricKey
    {
        let existing = enrolment.existing
        let changes: [RecordChange] = [
            rows.put(
                enrolment.key, owner: enrolment.removal.userID,
                requiresAudience: enrolment.removal.server.audience(for: existing) != nil,
                ifGeneration: existing?.generation ?? 0),
            rows.put(hint: enrolment.idToken), rows.put(identity: enrolment.identity),
            .delete(LoginRows.pendingID, ifGeneration: reservation),
        ]
        guard let stored = try await rows.applyUnlessChanged(changes, for: enrolment.prompt)?.first
        else {
            // Another process replaced the reservation or disabled biometric login. The server must
            // not keep the key.
            try await rows.apply([rows.put(identity: enrolment.identity)], for: enrolment.prompt)
            try? await records.discard(enrolment.key)
            try? await removeLeftovers(after: enrolment)
            throw Self.lostRace
        }
        if let existing { try? await records.discard(existing.key) }
        try? await removeLeftovers(after: enrolment)
        var key = try BiometricKey(stored)
        key.notRevocableReason = enrolment.made.revocabilityRefusal?.reason
        return key
    }

    /// Discards a key that the server certainly doesn't have.
    private func release(_ enrolment: KeyEnrolment, _ reservation: Int) async throws {
        try? await records.discard(enrolment.key)
        // A reservation of another process is kept.
        _ = try await rows.applyUnlessChanged(
            [.delete(LoginRows.pendingID, ifGeneration: reservation)], for: enrolment.prompt)
    }

    /// Discards a key that the server may have.
    private func leave(_ enrolment: KeyEnrolment, _ reservation: Int) async throws {
        try await rows.apply([rows.put(identity: enrolment.identity)], for: enrolment.prompt)
        try await release(enrolment, reservation)
        try? await removeLeftovers(after: enrolment)
    }

    /// Removes left-over identities from the server. The next call repeats failed removals.
    private func removeLeftovers(after enrolment: KeyEnrolment) async throws {
        guard enrolment.removal.server.metadata[.biometricRemoval] != nil else {
            let current = try await unverified.key()?.id
            let identities = try await unverified.identityRows(at: configuredServer).compactMap(
                RegisteredIdentity.init)
            return try await forget(identities.map(\.id).filter { $0 != current })
        }
        try await removeLeftovers(enrolment.removal)
    }

    private static var lostRace: LoginError {
        LoginError(
            code: .conflict,
            reason: "another program enabled or disabled biometric login at the same time",
            recovery: "Show the status, then try again.")
    }
}

/// The state of one registration.
struct KeyEnrolment: Sendable {
    let made: PreparedKey
    /// An ID token of the user.
    let idToken: String?
    /// The enabled key that is replaced.
    let existing: BiometricKey?
    /// A key whose registration an earlier call did not complete.
    let abandoned: BiometricKey?
    /// The session of the key's owner.
    let removal: IdentityRemoval
    let prompt: PromptContext

    var key: HardwareKey { made.key }
    var identity: RegisteredIdentity { RegisteredIdentity(id: key.id, userID: removal.userID) }
}
