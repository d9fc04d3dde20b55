internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// Setting, changing and removing the secret after the enrolment.
extension Locker {
    /// Sets a new secret. The old one works until one transaction replaces it: the server gets the
    /// new key before, and removes the old one after it.
    func registerEasyAccess(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        var enrolment = try enrolment()
        // The token of the new login, or of the session if its login is recent.
        guard let token = (draft.token ?? state.withLock { $0.token })?.handle.authorization else {
            throw CancellationError()
        }
        guard let offlineKey = keyring[.offline] else {
            throw ErsteGroupAuthError.refusal(.notActive)
        }
        let server = try await server()
        let old = enrolment.easyAccess
        // The server stores at most two keys. A crash during a change may have left one.
        try await removeUnusedKeys(enrolment, at: server, in: context)
        let new: NewSecret
        do {
            new = try await makeEasyAccess(
                enrolment.id, deviceKey: enrolment.deviceKey, token: token, at: server, in: context)
        } catch {
            await finishRevocations()
            // Without easy access here, the server's keys come from a copy of the store. Removing
            // them makes room for the next attempt.
            if old == nil, (error as? ErsteGroupAuthError)?.serverError == "easy_access_limit" {
                _ = try? await finish { [enrolment] in
                    try await self.removeAtServer(nil, of: enrolment, at: server, in: context)
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
            changes += [
                .delete(RecordID(old.key.id), ifGeneration: nil), PendingKey(removed: old.key).put,
            ]
        }
        do {
            try Task.checkCancellation()
            enrolment.generation =
                try await store(changes, classes: classes, context).first?.generation ?? 0
        } catch {
            await finishRevocations()
            // Names the key: another program may have deleted the row before the server got the
            // key.
            _ = try? await finish { [enrolment] in
                try await self.removeAtServer(
                    new.pending.key, of: enrolment, at: server, in: context)
                try await self.discard(new.pending, context)
            }
            throw error
        }
        configuration.records.lock(prefix: new.prepared.protection.name)
        forgetProofs()
        draft.enrolment = .some(enrolment)
        await finishRevocations()
        await tryRemovingUnusedKeys(enrolment, at: server, in: context)
    }

    /// Deletes easy-access keys without an enrolment from the server and from the hardware.
    private func removeUnusedKeys(
        _ enrolment: Enrolment, at server: LockerServer, in context: FlowContext
    ) async throws {
        for pending in try await rows.pendingKeys(for: context.prompt)
        where pending.role == .easyAccess {
            guard pending.key.id != enrolment.easyAccess?.key.id else { continue }
            try await removeAtServer(pending.key, of: enrolment, at: server, in: context)
            try await discard(pending, context)
        }
    }

    /// Tries to remove unused keys. After a failure, the next start that reaches the server tries
    /// again.
    func tryRemovingUnusedKeys(
        _ enrolment: Enrolment, at server: LockerServer, in context: FlowContext
    ) async {
        _ = try? await finish {
            try await self.removeUnusedKeys(enrolment, at: server, in: context)
        }
    }

    /// Removes an easy-access key, or all, at the server with the device's signature. Does not
    /// prompt.
    private func removeAtServer(
        _ key: HardwareKey?, of enrolment: Enrolment, at server: LockerServer,
        in context: FlowContext
    ) async throws {
        let assertion = try await sign(
            .easyAccessDisable, with: enrolment.deviceKey, enrolmentID: enrolment.id,
            removing: key?.id, at: server,
            in: context)
        try await server.removeEasyAccessKey(enrolment.id, assertion)
    }

    /// Removes the easy-access keys at the server, then deletes easy access here.
    func removeEasyAccess(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = try enrolment()
        let server = try await server()
        if let token = state.withLock({ $0.token }), !token.isExpired(at: now),
            let secret = token.handle.authorization
        {
            try await server.removeEasyAccessKeys(enrolment.id, secret)
        } else {
            // The session's token has expired. The device may remove its keys without one.
            try await removeAtServer(nil, of: enrolment, at: server, in: context)
        }
        draft = try await finish { [draft] in
            var draft = draft
            try await self.deleteLocalEasyAccess(context, &draft)
            return draft
        }
    }

    /// Deletes easy access here, and removes its key at the server: now, or at the next start that
    /// reaches the server. Until then a copy of the store could start sessions with the key, once
    /// the hardware accepts secrets again.
    func deleteBlockedEasyAccess(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let key = try enrolment().easyAccess?.key
        try await deleteLocalEasyAccess(
            context, &draft, adding: key.map { [PendingKey(removed: $0).put] } ?? [])
        guard let enrolment = draft.enrolment ?? nil, let server = try? await server() else {
            return
        }
        await tryRemovingUnusedKeys(enrolment, at: server, in: context)
    }

    /// Deletes easy access here: its key, and the class that it opens.
    func deleteLocalEasyAccess(
        _ context: FlowContext, _ draft: inout SessionDraft, adding changes: [RecordChange] = []
    ) async throws {
        var enrolment = try enrolment()
        guard let easyAccess = enrolment.easyAccess else { return }
        let erasing = LockerRows.erasing(easyAccess, of: enrolment)
        let stored = try await store(erasing.records + changes, classes: erasing.classes, context)
        enrolment.generation = stored.first?.generation ?? 0
        forgetProofs()
        enrolment.easyAccess = nil
        draft.enrolment = .some(enrolment)
        await finishRevocations()
        if !easyAccess.key.isRevocable {
            try? await configuration.records.keystore.delete(easyAccess.key)
        }
    }
}
