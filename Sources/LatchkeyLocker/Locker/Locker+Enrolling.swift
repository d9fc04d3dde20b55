internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

/// Enrolment, in an order such that a crash leaves an enrolment or none, here and at the server:
/// 1. the device's key is made, and a row says that it would be left over;
/// 2. the device signs that its enrolment, whose name follows from the key, is revoked, a row keeps that statement, and
///    the server enrols the key;
/// 3. the person sets the secret, the server gets its key, the hardware seals the keys of levels;
/// 4. one transaction stores the enrolment and deletes the statement.
///
/// Whoever finds rows of 1 or 2 after a crash has the server revoke and the hardware delete.
extension Locker {
    /// What can be known before anybody is asked.
    func checkEnrolmentIsPossible(_ server: LockerServer) async throws {
        guard server.discovery.enrolment != nil else {
            throw ErsteGroupAuthError.noLocker(server.operation)
        }
        guard server.discovery.hasLevelShares || configuration.levelShares == .whenOffered else {
            throw ErsteGroupAuthError.noLevelShares(server.operation)
        }
        let capabilities = try await configuration.records.keystore.capabilities()
        let needed: Set = [AccessPolicy.Requirement.none, configuration.easyAccessPolicy.requirement]
        guard needed.isSubset(of: capabilities.requirements),
            capabilities.sealing.contains(configuration.easyAccessPolicy.requirement)
        else {
            throw ErsteGroupAuthError.invalidConfiguration(
                "easyAccessPolicy", "can't be enforced by this hardware, or it has no keys for the device alone")
        }
    }

    func enrol(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        guard let userID = draft.userID, let token = draft.token?.handle.secret else { throw CancellationError() }
        let server = try await server(context.operation)
        let pending = try await makeKey(.device, policy: .none, context)
        do {
            let enrolmentID = EnrolmentID.name(for: pending.key.publicKey)
            let challenge = try await server.challenge()
            let assertion = try await sign(
                .enrol, challenge: challenge, with: pending.key, enrolmentID: nil, server, context,
                authorizedBy: NobodyPresent())
            let tombstone = try await bury(enrolmentID, pending.key, server, context)
            do {
                let answer = try await server.enrol(assertion, as: enrolmentID, token)
                let enrolment = try await complete(answer, pending, tombstone, userID, token, server, context)
                draft.enrolment = .some(enrolment.enrolment)
                draft.levels = enrolment.levels
                draft.counters = enrolment.counters
            } catch {
                await takeBack()
                _ = try? await finish { try await self.send(tombstone, server, context) }
                throw error
            }
        } catch {
            _ = try? await finish { try await self.discard(pending, context) }
            throw error
        }
    }

    /// Step 3 and 4.
    private func complete(
        _ answer: LockerEnrolmentAnswer, _ pending: PendingKey, _ tombstone: Tombstone, _ userID: String,
        _ token: SecretBytes, _ server: LockerServer, _ context: FlowContext
    ) async throws -> (enrolment: Enrolment, levels: [ProtectionLevel: LevelKey], counters: LockerCounters) {
        let isShared = answer.levelShares != nil
        guard isShared == server.discovery.hasLevelShares,
            !isShared || (answer.levelShares?.active != nil && answer.levelShares?.background != nil)
        else {
            throw ErsteGroupAuthError.invalidResponse(context.operation, "the server does not keep its word on shares")
        }
        let levels = Dictionary(uniqueKeysWithValues: ProtectionLevel.allCases.map { ($0, LevelKey.random()) })
        guard let baseKey = levels[.base], let offlineKey = levels[.offline] else { throw CancellationError() }
        let deviceSecret = SecretBytes.random(count: LevelKey.byteCount)
        let secret = try await makeEasyAccess(
            answer.enrolmentID, deviceKey: pending.key, token, server, context)
        do {
            let base = try await configuration.records.prepare(
                Enrolment.baseClasses(of: answer.enrolmentID).newClass(.none), revocably: .preferred,
                for: context.prompt,
                authorizedBy: NobodyPresent())
            var enrolment = Enrolment(
                id: answer.enrolmentID, issuer: configuration.issuer, clientID: configuration.clientID, userID: userID,
                isShared: isShared, deviceKey: pending.key,
                easyAccess: .init(key: secret.pending.key, offlineClass: secret.prepared.protection),
                wraps: try LevelWraps(
                    levels, deviceSecret: deviceSecret, shares: answer.levelShares, enrolmentID: answer.enrolmentID),
                baseClass: base.protection, baseKey: baseKey, deviceSecret: deviceSecret)
            var counters = LockerCounters()
            counters.reset(online: now)
            let changes = [
                LockerRows.put(enrolment), LockerRows.put(pending.key), LockerRows.put(secret.pending.key),
                LockerRows.put(offline: offlineKey, in: secret.prepared.protection),
                LockerRows.put(counters, ifGeneration: nil),
                pending.delete, secret.pending.delete, .delete(tombstone.id, ifGeneration: nil),
            ]
            try Task.checkCancellation()
            let stored = try await store(changes, classes: [.add(base), .add(secret.prepared)], context)
            enrolment.generation = stored.first?.generation ?? 0
            configuration.records.lock(prefix: secret.prepared.protection.name)
            return (enrolment, levels, counters)
        } catch {
            _ = try? await finish { try await self.discard(secret.pending, context) }
            throw error
        }
    }

    // MARK: Keys

    /// A secret that was just set: its key, which the server has, and the class that it opens.
    struct NewSecret: Sendable {
        let pending: PendingKey
        let prepared: PreparedClass
    }

    /// Makes a key, with a row that says that it may be left over. That of easy access is one that the hardware can take
    /// back, where it can: no copy of the store signs with it after the secret was changed or given up.
    func makeKey(
        _ role: PendingKey.Role, policy: AccessPolicy, _ context: FlowContext
    ) async throws -> PendingKey {
        let request = KeyRequest(
            policy: policy, label: role == .device ? "locker: device" : "locker: easy access", prompt: context.prompt)
        let made = try await configuration.records.createKey(
            request, revocably: role == .easyAccess ? .preferred : .never, authorizedBy: context.consent)
        defer { withExtendedLifetime(made) {} }
        context.consent.confirm()
        var pending = PendingKey(role, made.key)
        do {
            pending.generation = try await finish { [pending] in
                try await self.store([pending.put], context).first?.generation ?? 0
            }
        } catch {
            try? await configuration.records.discard(made.key)
            throw error
        }
        return pending
    }

    /// Has the person set a secret, once for its key and for the class that it opens, and gives the key to the server,
    /// which takes it from this device alone.
    func makeEasyAccess(
        _ enrolmentID: String, deviceKey: HardwareKey, _ token: SecretBytes, _ server: LockerServer,
        _ context: FlowContext
    ) async throws -> NewSecret {
        let policy = configuration.easyAccessPolicy
        let pending = try await makeKey(.easyAccess, policy: policy, context)
        do {
            let prepared = try await configuration.records.prepare(
                Enrolment.offlineClasses(of: enrolmentID).newClass(policy), revocably: .preferred, for: context.prompt,
                authorizedBy: context.consent)
            context.consent.confirm()
            let assertion = try await sign(
                .easyAccessEnable, challenge: server.challenge(), with: pending.key, enrolmentID: enrolmentID, server,
                context)
            context.consent.confirm()
            let deviceSignature = try await countersign(assertion, with: deviceKey, context)
            try await server.enableEasyAccess(enrolmentID, assertion, deviceSignature: deviceSignature, token)
            return NewSecret(pending: pending, prepared: prepared)
        } catch {
            // Where the server may have the key, the row stays, so that it is removed there later.
            let isRefused = (error as? ErsteGroupAuthError)?.httpStatus.map { (400..<500).contains($0) } ?? false
            if isRefused || !(error is ErsteGroupAuthError) {
                _ = try? await finish { try await self.discard(pending, context) }
            }
            throw error
        }
    }

    /// Deletes a key that nobody needs, and its row.
    func discard(_ pending: PendingKey, _ context: FlowContext) async throws {
        // What can't be noted goes first, and what can be noted is so with the deletion of its row.
        if !pending.key.isRevocable { try await configuration.records.keystore.delete(pending.key) }
        _ = try await store([.delete(pending.id, ifGeneration: nil)], context)
        if pending.key.isRevocable { try await configuration.records.discard(pending.key) }
    }
}
