internal import FoundationEssentials
package import Latchkey
internal import LatchkeyOAuth

/// Enrolment. The order of the steps makes sure that a crash leaves either a complete enrolment or
/// none, here and at the server:
/// 1. The hardware makes the device's key, and a row marks the key as unused.
/// 2. The device signs the revocation of its enrolment, whose id follows from the key. A row stores
///   that statement. Then the server enrols the key.
/// 3. The user sets the secret, the server gets its key, and the hardware seals the level keys.
/// 4. One transaction stores the enrolment and deletes the statement.
///
/// After a crash, the next run finds the rows of step 1 or 2. It revokes the enrolment at the
/// server and deletes the keys.
extension Locker {
    /// Checks the conditions of an enrolment before the user is prompted.
    func checkEnrolmentIsPossible(_ server: LockerServer, _ presence: any PresenceAuthority)
        async throws
    {
        guard server.discovery.enrolment != nil else { throw ErsteGroupAuthError.noLocker }
        guard server.discovery.hasLevelShares || configuration.levelShares == .whenOffered else {
            throw ErsteGroupAuthError(
                code: .invalidConfiguration,
                reason:
                    "the server stores no key shares, so cryptography would not bind data to sessions",
                recovery: Recovery("Use another server, or set ‘levelShares’.", .omitShares))
        }
        let capabilities = try await configuration.records.keystore.capabilities()
        let policy = await easyAccessPolicy(through: presence)
        let needed: Set = [AccessPolicy.Requirement.none, policy.requirement]
        guard needed.isSubset(of: capabilities.requirements),
            capabilities.sealing.contains(policy.requirement)
        else {
            throw ErsteGroupAuthError.invalidConfiguration(
                "easyAccessPolicy", "needs keys that this hardware does not support")
        }
        for policy in [AccessPolicy.none, policy] { try capabilities.checkSealing(under: policy) }
    }

    /// The policy that easy access gets if the user enables or changes it now.
    package func easyAccessPolicy(through presence: any PresenceAuthority) async -> AccessPolicy {
        if let policy = configuration.easyAccessPolicy { return policy }
        return await configuration.records.keystore.preferredPolicy(
            for: .signingAndSealing, through: presence)
    }

    func enrol(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        guard let userID = draft.userID, let token = draft.token?.handle.authorization else {
            throw CancellationError()
        }
        let server = try await server()
        let prover = try await prover(
            for: easyAccessPolicy(through: context.presence), server, token)
        let pending = try await makeKey(.device, policy: .none, context)
        do {
            let enrolmentID = pending.key.publicKey.thumbprint
            let (assertion, attestation) = try await signNewKey(
                .enrol, with: pending.key, enrolmentID: nil, provenBy: prover, at: server,
                in: context)
            let tombstone = try await storeRevocation(
                of: enrolmentID, by: pending.key, at: server, in: context)
            do {
                let answer = try await server.enrol(
                    assertion, attestation: attestation, as: enrolmentID, token)
                try await complete(
                    answer, with: pending, revokedBy: tombstone, userID: userID, token: token,
                    at: server, in: context, &draft)
            } catch {
                await finishRevocations()
                _ = try? await finish { try await self.send(tombstone, at: server, in: context) }
                throw error
            }
        } catch {
            _ = try? await finish { try await self.discard(pending, context) }
            throw error
        }
    }

    /// Performs steps 3 and 4.
    private func complete(
        _ answer: LockerEnrolmentAnswer, with pending: PendingKey, revokedBy tombstone: Tombstone,
        userID: String, token: SecretBytes, at server: LockerServer, in context: FlowContext,
        _ draft: inout SessionDraft
    ) async throws {
        let isShared = answer.levelShares != nil
        guard isShared == server.discovery.hasLevelShares,
            !isShared
                || (answer.levelShares?.active != nil && answer.levelShares?.background != nil)
        else {
            throw ErsteGroupAuthError.invalidResponse(
                "the level shares in the answer contradict the discovery document")
        }
        let levels = Dictionary(
            uniqueKeysWithValues: ProtectionLevel.allCases.map { ($0, LevelKey.random()) })
        guard let baseKey = levels[.base], let offlineKey = levels[.offline] else {
            throw CancellationError()
        }
        let deviceSecret = SecretBytes.random(count: LevelKey.byteCount)
        let secret = try await makeEasyAccess(
            answer.enrolmentID, deviceKey: pending.key, token: token, at: server, in: context)
        do {
            let base = try await configuration.records.prepare(
                Enrolment.baseClasses(of: answer.enrolmentID).newClass(.none),
                revocably: .preferred,
                for: context.prompt, authorizedBy: NobodyPresent())
            var enrolment = Enrolment(
                id: answer.enrolmentID, issuer: configuration.issuer,
                clientID: configuration.clientID, userID: userID,
                isShared: isShared, deviceKey: pending.key,
                easyAccess: .init(
                    key: secret.pending.key, offlineClass: secret.prepared.protection),
                wraps: try LevelWraps(
                    levels, deviceSecret: deviceSecret, shares: answer.levelShares,
                    enrolmentID: answer.enrolmentID),
                baseClass: base.protection, baseKey: baseKey, deviceSecret: deviceSecret)
            var counters = LockerCounters()
            counters.reset(online: now)
            let changes = [
                LockerRows.put(enrolment), LockerRows.put(pending.key),
                LockerRows.put(secret.pending.key),
                LockerRows.put(offline: offlineKey, in: secret.prepared.protection),
                LockerRows.put(counters, ifGeneration: nil),
                pending.delete, secret.pending.delete, .delete(tombstone.id, ifGeneration: nil),
            ]
            try Task.checkCancellation()
            let stored = try await store(
                changes, classes: [.add(base), .add(secret.prepared)], context)
            enrolment.generation = stored.first?.generation ?? 0
            configuration.records.lock(prefix: secret.prepared.protection.name)
            (draft.enrolment, draft.levels, draft.counters) = (.some(enrolment), levels, counters)
        } catch {
            _ = try? await finish { try await self.discard(secret.pending, context) }
            throw error
        }
    }

    // MARK: Keys

    /// A new secret: its key, which the server has, and the class that it opens.
    typealias NewSecret = (pending: PendingKey, prepared: PreparedClass)

    /// Makes a key, with a row that marks it as unused. The easy-access key is revocable if the
    /// hardware supports that: after the secret was changed or deleted, no copy of the store signs
    /// with it.
    func makeKey(
        _ role: PendingKey.Role, policy: AccessPolicy, _ context: FlowContext
    ) async throws -> PendingKey {
        let request = KeyRequest(
            policy: policy, label: role == .device ? "locker: device" : "locker: easy access",
            prompt: context.prompt)
        let records = configuration.records
        let made =
            switch role {
            case .device:
                try await records.createKey(
                    request, revocably: .never, authorizedBy: context.presence)
            case .easyAccess:
                try await prompting {
                    try await records.createKey(
                        request, revocably: .preferred, authorizedBy: context.presence)
                }
            }
        defer { withExtendedLifetime(made) {} }
        var pending = PendingKey(role, made.key)
        do {
            pending.generation = try await finish { [pending] in
                try await self.store([pending.put], context).first?.generation ?? 0
            }
        } catch {
            try? await records.discard(made.key)
            throw error
        }
        return pending
    }

    /// Prompts once for a new secret, for its key and for the class that it opens. Adds the key at
    /// the server, which accepts it only with this device's signature.
    func makeEasyAccess(
        _ enrolmentID: String, deviceKey: HardwareKey, token: SecretBytes, at server: LockerServer,
        in context: FlowContext
    ) async throws -> NewSecret {
        let policy = await easyAccessPolicy(through: context.presence)
        let prover = try await prover(for: policy, server, token)
        let pending = try await makeKey(.easyAccess, policy: policy, context)
        do {
            let prepared = try await prompting {
                try await configuration.records.prepare(
                    Enrolment.offlineClasses(of: enrolmentID).newClass(policy),
                    revocably: .preferred,
                    for: context.prompt, authorizedBy: context.presence)
            }
            let (assertion, attestation) = try await signNewKey(
                .easyAccessEnable, with: pending.key, enrolmentID: enrolmentID, provenBy: prover,
                at: server,
                in: context)
            let deviceSignature = try await countersign(assertion, with: deviceKey, context)
            try await server.enableEasyAccess(
                enrolmentID, assertion: assertion, deviceSignature: deviceSignature,
                attestation: attestation, token: token)
            return (pending, prepared)
        } catch {
            // If the server may have the key, the row stays, so that the key is removed there
            // later.
            let isRefused =
                (error as? ErsteGroupAuthError)?.httpStatus.map { (400..<500).contains($0) }
                ?? false
            if isRefused || !(error is ErsteGroupAuthError) {
                _ = try? await finish { try await self.discard(pending, context) }
            }
            throw error
        }
    }

    /// Deletes an unused key, and its row.
    func discard(_ pending: PendingKey, _ context: FlowContext) async throws {
        // A revocable key is noted for revocation in the transaction that deletes its row. Any
        // other key has to be deleted first.
        if !pending.key.isRevocable { try await configuration.records.keystore.delete(pending.key) }
        _ = try await store([.delete(pending.id, ifGeneration: nil)], context)
        if pending.key.isRevocable { try await configuration.records.discard(pending.key) }
    }
}
