internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The secret's life after the enrolment.
extension Locker {
    /// Sets a new secret. The old one works until one transaction puts the new one in its place: the server gets the new
    /// key before that, and gives up the old one after it.
    func registerEasyAccess(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        var enrolment = try enrolment(context.operation)
        // The token of the login that was just made, or of the session's own where that is fresh.
        guard let token = (draft.token ?? state.withLock { $0.token })?.handle.secret else {
            throw CancellationError()
        }
        guard let offlineKey = keyring[.offline] else {
            throw ErsteGroupAuthError.refusal(context.operation, .notActive)
        }
        let server = try await server(context.operation)
        let old = enrolment.easyAccess
        // The server takes two keys at most; one may be left of a change that a crash ended.
        try await removeLeftovers(enrolment, server, context)
        let new: NewSecret
        do {
            new = try await makeEasyAccess(
                enrolment.id, deviceKey: enrolment.deviceKey, token, server, context)
        } catch {
            await takeBack()
            // Where there should be none, keys that fill the server are of a copy of the store: the next try has room.
            if old == nil, (error as? ErsteGroupAuthError)?.serverError == "easy_access_limit" {
                _ = try? await finish { [enrolment] in
                    try await self.giveUp(nil, of: enrolment, server, context)
                }
            }
            throw error
        }
        enrolment.easyAccess = .init(key: new.pending.key, offlineClass: new.prepared.protection)
        var changes = [
            LockerRows.put(enrolment), LockerRows.put(new.pending.key),
            LockerRows.put(offline: offlineKey, in: new.prepared.protection), new.pending.delete,
        ]
        let family = Enrolment.offlineClasses(of: enrolment.id)
        let classes: [ClassChange] = [.drop(prefix: family.prefix), .add(new.prepared)]
        if let old {
            changes += [.delete(RecordID(old.key.id), ifGeneration: nil), PendingKey(givenUp: old.key).put]
        }
        do {
            try Task.checkCancellation()
            enrolment.generation = try await store(changes, classes: classes, context).first?.generation ?? 0
        } catch {
            await takeBack()
            // By its name: another program may have deleted the row, and the server got the key after that.
            _ = try? await finish { [enrolment] in
                try await self.giveUp(new.pending.key, of: enrolment, server, context)
                try await self.discard(new.pending, context)
            }
            throw error
        }
        configuration.records.lock(prefix: new.prepared.protection.name)
        forgetProofs()
        draft.enrolment = .some(enrolment)
        await takeBack()
        _ = try? await finish { [enrolment] in
            try await self.removeLeftovers(enrolment, server, context)
        }
    }

    /// Has the server and the hardware give up easy-access keys of which only rows are left.
    func removeLeftovers(_ enrolment: Enrolment, _ server: LockerServer, _ context: FlowContext) async throws {
        for pending in try await rows.pendingKeys(for: context.prompt) where pending.role == .easyAccess {
            guard pending.key.id != enrolment.easyAccess?.key.id else { continue }
            try await giveUp(pending.key, of: enrolment, server, context)
            try await discard(pending, context)
        }
    }

    /// Has the server give up an easy-access key, or all, on the device's word: that opens nothing and asks nobody.
    private func giveUp(
        _ key: HardwareKey?, of enrolment: Enrolment, _ server: LockerServer, _ context: FlowContext
    ) async throws {
        let assertion = try await sign(
            .easyAccessDisable, challenge: server.challenge(), with: enrolment.deviceKey, enrolmentID: enrolment.id,
            removing: key?.id, server, context, authorizedBy: NobodyPresent())
        try await server.giveUpEasyAccess(enrolment.id, assertion)
    }

    /// Has the server give up the easy-access keys, then gives up the secret here.
    func removeEasyAccess(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = try enrolment(context.operation)
        guard let token = state.withLock({ $0.token }), !token.isExpired(at: now), let secret = token.handle.secret
        else {
            throw ErsteGroupAuthError(
                operation: context.operation, code: .strongAuthRequired, reason: "the session's token has expired",
                recovery: "Start the session again, then try again.")
        }
        try await server(context.operation).removeEasyAccess(enrolment.id, secret)
        draft = try await finish { [draft] in
            var draft = draft
            try await self.dropEasyAccess(context, &draft)
            return draft
        }
    }

    /// Gives up the secret here and has the server give up its key: at once, or at the next start that reaches it. Until
    /// then a copy of the store could begin sessions with it, once the hardware takes secrets again.
    func giveUpEasyAccess(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let key = try enrolment(context.operation).easyAccess?.key
        try await dropEasyAccess(context, &draft, adding: key.map { [PendingKey(givenUp: $0).put] } ?? [])
        guard let enrolment = draft.enrolment ?? nil else { return }
        _ = try? await finish {
            try await self.removeLeftovers(enrolment, self.server(context.operation), context)
        }
    }

    /// Gives up the secret here: its key, and what it opens. What other ways open stays.
    func dropEasyAccess(
        _ context: FlowContext, _ draft: inout SessionDraft, adding changes: [RecordChange] = []
    ) async throws {
        var enrolment = try enrolment(context.operation)
        guard let easyAccess = enrolment.easyAccess else { return }
        let erasing = LockerRows.erasing(easyAccess, of: enrolment)
        let stored = try await store(erasing.records + changes, classes: erasing.classes, context)
        enrolment.generation = stored.first?.generation ?? 0
        forgetProofs()
        enrolment.easyAccess = nil
        draft.enrolment = .some(enrolment)
        await takeBack()
        if !easyAccess.key.isRevocable { try? await configuration.records.keystore.delete(easyAccess.key) }
    }
}
