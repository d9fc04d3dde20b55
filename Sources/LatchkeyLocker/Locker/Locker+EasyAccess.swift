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
        // The server takes two keys at most; one may be left of a change that a crash ended.
        try await removeLeftovers(enrolment, token, server, context)
        let old = enrolment.easyAccess
        let new: NewSecret
        do {
            new = try await makeEasyAccess(
                enrolment.id, deviceKey: enrolment.deviceKey, token, server, context)
        } catch {
            await takeBack()
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
            changes += [.delete(RecordID(old.key.id), ifGeneration: nil), PendingKey(.easyAccess, old.key).put]
        }
        do {
            try Task.checkCancellation()
            _ = try await store(changes, classes: classes, context)
        } catch {
            await takeBack()
            // By its name: another program may have deleted the row, and the server got the key after that.
            _ = try? await finish { [enrolment] in
                try await server.removeEasyAccess(enrolment.id, kid: new.pending.key.id, token)
                try await self.discard(new.pending, context)
            }
            throw error
        }
        configuration.records.lock(prefix: new.prepared.protection.name)
        forgetProofs()
        draft.enrolment = .some(enrolment)
        await takeBack()
        _ = try? await finish { [enrolment] in
            try await self.removeLeftovers(enrolment, token, server, context)
        }
    }

    /// Has the server and the hardware give up easy-access keys of which only rows are left.
    func removeLeftovers(
        _ enrolment: Enrolment, _ token: SecretBytes, _ server: LockerServer, _ context: FlowContext
    ) async throws {
        for pending in try await rows.pendingKeys(for: context.prompt) where pending.role == .easyAccess {
            guard pending.key.id != enrolment.easyAccess?.key.id else { continue }
            try await server.removeEasyAccess(enrolment.id, kid: pending.key.id, token)
            try await discard(pending, context)
        }
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
        try await server(context.operation).removeEasyAccess(enrolment.id, kid: nil, secret)
        draft = try await finish { [draft] in
            var draft = draft
            try await self.dropEasyAccess(context, &draft)
            return draft
        }
    }

    /// Gives up the secret here: its key, and what it opens. What other ways open stays.
    func dropEasyAccess(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        var enrolment = try enrolment(context.operation)
        guard let easyAccess = enrolment.easyAccess else { return }
        let erasing = LockerRows.erasing(easyAccess, of: enrolment)
        _ = try await store(erasing.records, classes: erasing.classes, context)
        forgetProofs()
        enrolment.easyAccess = nil
        draft.enrolment = .some(enrolment)
        await takeBack()
        try? await configuration.records.keystore.delete(easyAccess.key)
    }
}
