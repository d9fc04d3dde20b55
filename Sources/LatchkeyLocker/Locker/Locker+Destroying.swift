internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The end of an enrolment.
extension Locker {
    /// Signs that the enrolment is revoked, deletes everything of it, then tells the server; if that can't be done now, a
    /// row without secrets keeps the statement.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `revocationPending` when all is deleted and the server was not told.
    func destroy(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = try enrolment(context.operation)
        let statement = try await revocation(of: enrolment, context)
        let isTakenBack = try await erase(enrolment, adding: statement.map { [$0] } ?? [], context)
        draft.enrolment = .some(nil)
        draft.counters = LockerCounters()
        do {
            guard let statement else {
                throw ErsteGroupAuthError(
                    operation: context.operation, code: .hardware, reason: "the device's key can't sign any more",
                    recovery: "Remove the device at the server.")
            }
            try await finish { try await self.send(statement, self.server(context.operation), context) }
        } catch {
            let cause = ErsteGroupAuthError(context.operation, any: error)
            throw ErsteGroupAuthError(
                operation: context.operation, code: .revocationPending,
                reason: "everything is deleted here, and the server does not know yet: \(cause.reason)",
                recovery: "It is told at the next call that reaches it.", serverError: cause.serverError,
                httpStatus: cause.httpStatus, underlying: cause.underlying)
        }
        guard isTakenBack else {
            throw ErsteGroupAuthError(
                operation: context.operation, code: .revocationPending,
                reason: "everything is deleted here, and the hardware has not yet taken the keys back",
                recovery: "It does at the next start; until then a copy of the store may still open.")
        }
    }

    /// Deletes an enrolment that the server no longer knows.
    func purge(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        draft.enrolment = .some(nil)
        draft.counters = LockerCounters()
        guard let enrolment = state.withLock({ $0.enrolment }) else { return }
        try await erase(enrolment, adding: [], context)
    }

    /// The device's own word that it gives up; nil where its key can never sign again.
    private func revocation(of enrolment: Enrolment, _ context: FlowContext) async throws -> Tombstone? {
        let input = try LockerAssertion(
            action: .revoke, issuer: enrolment.issuer, enrolmentID: enrolment.id, challenge: nil,
            key: enrolment.deviceKey, issuedAt: now
        ).signingInput()
        do throws(KeystoreError) {
            let signature = try await configuration.records.keystore.sign(
                MessageDigest(sha256: input.utf8), with: enrolment.deviceKey, for: context.prompt,
                authorizedBy: NobodyPresent())
            return Tombstone(
                enrolmentID: enrolment.id, issuer: enrolment.issuer,
                statement: JWS.compact(input, signature: signature))
        } catch {
            switch error.code {
            case .notFound, .wrongDevice, .damaged, .invalidated: return nil
            default: throw error
            }
        }
    }

    /// One transaction, then the hardware: what it has to take back is noted in that transaction.
    ///
    /// - Returns: Whether it has taken everything back.
    @discardableResult
    func erase(
        _ enrolment: Enrolment, adding tombstones: [Tombstone], _ context: FlowContext
    ) async throws -> Bool {
        let standing = try await rows.standing(enrolment.id)
        let keys = Set([enrolment.deviceKey, enrolment.easyAccess?.key, standing?.easyAccess].compactMap(\.self))
        let erasing = LockerRows.erasing(enrolment, at: standing?.generation, Array(keys))
        let changes = erasing.records + tombstones.map { .put($0.record, payload: nil, ifGeneration: nil) }
        _ = try await finish { try await self.store(changes, classes: erasing.classes, context) }
        forgetProofs()
        let isTakenBack = await takeBack()
        for key in keys where !key.isRevocable { try? await configuration.records.keystore.delete(key) }
        return isTakenBack
    }

    /// Has the hardware take back the key of easy access that has no row any more, the keys of classes that are dropped, and
    /// what was made in vain. What it can't do now is done at the next start.
    ///
    /// - Returns: Whether nothing is left to do.
    @discardableResult
    func takeBack() async -> Bool {
        do {
            try await finish { try await self.configuration.records.finishRevocations() }
            return true
        } catch {
            log(.warning, "the hardware has not taken the keys back: \(ErsteGroupAuthError("", any: error).code)")
            return false
        }
    }

    // MARK: Tombstones

    /// Stores the device's word that an enrolment is revoked, before there is one: for the case that it stays half made.
    func bury(
        _ enrolmentID: String, _ key: HardwareKey, _ server: LockerServer, _ context: FlowContext
    ) async throws -> Tombstone {
        let statement = try await sign(
            .revoke, challenge: nil, with: key, enrolmentID: enrolmentID, server, context,
            authorizedBy: NobodyPresent())
        let tombstone = Tombstone(enrolmentID: enrolmentID, issuer: configuration.issuer, statement: statement)
        _ = try await store([.put(tombstone.record, payload: nil, ifGeneration: nil)], context)
        return tombstone
    }

    /// Tells the server of a destroyed enrolment.
    func send(_ tombstone: Tombstone, _ server: LockerServer, _ context: FlowContext) async throws {
        do throws(ErsteGroupAuthError) {
            try await server.revoke(tombstone.enrolmentID, statement: tombstone.statement)
        } catch {
            // An enrolment that the server does not know is what was wanted.
            guard error.code == .enrolmentRevoked else { throw error }
        }
        _ = try await store([.delete(tombstone.id, ifGeneration: nil)], context)
    }

    /// Finishes what a crash or a missing network left undone. What can't be done now is left for the next time.
    func tidyUp(_ context: FlowContext) async {
        await takeBack()
        guard let tombstones = try? await rows.tombstones(for: context.prompt),
            let pending = try? await rows.pendingKeys(for: context.prompt)
        else { return }
        let isEnrolled = state.withLock { $0.enrolment != nil }
        // Easy-access keys of an enrolment that stands may be at the server: the next start removes them there.
        for key in pending where key.role == .device || !isEnrolled { try? await discard(key, context) }
        let mine = tombstones.filter { $0.issuer == configuration.issuer }
        guard !mine.isEmpty, let server = try? await server(context.operation) else { return }
        for tombstone in mine { try? await send(tombstone, server, context) }
    }
}
