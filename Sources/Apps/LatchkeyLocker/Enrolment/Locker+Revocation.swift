internal import FoundationEssentials
public import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth
internal import Synchronization

/// Revoking an enrolment here and at the server.
extension Locker {
    /// Signs the revocation of the enrolment, deletes the enrolment, then sends the revocation to
    /// the server. If that fails, a row without secrets stores the revocation.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `revocationPending` if the enrolment is deleted
    ///   here and not yet at the server.
    func deleteEnrolment(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = try enrolment()
        let statement = try await revocation(of: enrolment, context)
        let isRevoked = try await erase(enrolment, adding: statement.map { [$0] } ?? [], context)
        draft.enrolment = .some(nil)
        draft.counters = LockerCounters()
        do {
            guard let statement else {
                throw ErsteGroupAuthError(
                    code: .hardware, reason: "the device's key can't sign any more",
                    recovery: "Remove the device at the server.")
            }
            try await finish { try await self.send(statement, at: self.server(), in: context) }
        } catch {
            let cause = ErsteGroupAuthError(any: error)
            throw ErsteGroupAuthError(
                code: .revocationPending,
                reason: "the enrolment is deleted here and not yet at the server: \(cause.reason)",
                recovery:
                    "Nothing else has to be done here: the next start that reaches the server deletes it there.",
                underlying: cause.underlying,
                details: cause.details)
        }
        guard isRevoked else {
            throw ErsteGroupAuthError(
                code: .revocationPending,
                reason:
                    "the enrolment is deleted here, and the hardware has not yet revoked its keys",
                recovery:
                    "Start again to repeat the revocation. Until then, a copy of the store may open."
            )
        }
    }

    /// Deletes an enrolment that does not exist at the server any more.
    func deleteRevokedEnrolment(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        draft.enrolment = .some(nil)
        draft.counters = LockerCounters()
        guard let enrolment = state.withLock({ $0.enrolment }) else { return }
        try await erase(enrolment, adding: [], context)
    }

    /// The device's signed revocation; nil if its key can't sign any more.
    private func revocation(of enrolment: Enrolment, _ context: FlowContext) async throws
        -> Tombstone?
    {
        do {
            return try await Self.signRevocation(
                of: enrolment.id, issuer: enrolment.issuer, by: enrolment.deviceKey, at: now,
                configuration.records,
                context.prompt)
        } catch let error as KeystoreError
            where [.notFound, .wrongDevice, .damaged, .invalidated].contains(error.code)
        {
            return nil
        }
    }

    /// Signs the revocation of an enrolment with the device's key.
    ///
    /// - Parameter audience: The server's own spelling of its issuer; nil if it is not known.
    private static func signRevocation(
        of enrolmentID: String, issuer: String, audience: String? = nil, by key: HardwareKey,
        at date: Date,
        _ records: RecordContainer, _ prompt: PromptContext
    ) async throws -> Tombstone {
        let input = try LockerAssertion(
            action: .revoke, issuer: audience ?? issuer, enrolmentID: enrolmentID, challenge: nil,
            key: key,
            issuedAt: date
        ).signingInput()
        let signature = try await records.keystore.sign(
            MessageDigest(sha256: input.utf8), with: key, for: prompt, authorizedBy: NobodyPresent()
        )
        return Tombstone(
            enrolmentID: enrolmentID, issuer: issuer,
            statement: JWS.compact(input, signature: signature))
    }

    /// Deletes the rows in one transaction, which also notes the keys to revoke. Then revokes the
    /// keys in the hardware.
    ///
    /// - Returns: Whether the hardware has revoked all keys.
    @discardableResult
    func erase(
        _ enrolment: Enrolment, adding tombstones: [Tombstone], _ context: FlowContext
    ) async throws -> Bool {
        let existing = try await rows.existing(enrolment.id)
        let keys = Set(
            [enrolment.deviceKey, enrolment.easyAccess?.key, existing?.easyAccess].compactMap(
                \.self))
        let erasing = LockerRows.erasing(enrolment, at: existing?.generation, Array(keys))
        let dpopKey = try await configuration.records.metadata(LockerRows.dpopID)?.key
        let changes =
            erasing.records + tombstones.map(\.put)
            + [.delete(LockerRows.dpopID, ifGeneration: nil)]
        _ = try await finish { try await self.store(changes, classes: erasing.classes, context) }
        forgetProofs()
        let isRevoked = await finishRevocations()
        dpopProver.withLock { $0 = nil }
        for key in Array(keys) + [dpopKey].compactMap(\.self) where !key.isRevocable {
            try? await configuration.records.keystore.delete(key)
        }
        return isRevoked
    }

    /// Revokes in the hardware the easy-access key without a row, the keys of deleted classes, and
    /// unused keys. The next start repeats what fails now.
    ///
    /// - Returns: Whether all revocations are done.
    @discardableResult
    func finishRevocations() async -> Bool {
        do {
            try await finish { try await self.configuration.records.finishRevocations() }
            return true
        } catch {
            log(
                .warning,
                "the hardware has not revoked the keys: \(ErsteGroupAuthError(any: error).code)")
            return false
        }
    }

    // MARK: Tombstones

    /// Signs and stores the revocation of an enrolment before it is made, in case it stays
    /// incomplete.
    func storeRevocation(
        of enrolmentID: String, by key: HardwareKey, at server: LockerServer,
        in context: FlowContext
    ) async throws -> Tombstone {
        let tombstone = try await Self.signRevocation(
            of: enrolmentID, issuer: configuration.issuer, audience: server.discovery.issuer,
            by: key, at: now,
            configuration.records, context.prompt)
        _ = try await store([tombstone.put], context)
        return tombstone
    }

    /// Revokes a destroyed enrolment at the server.
    func send(_ tombstone: Tombstone, at server: LockerServer, in context: FlowContext) async throws
    {
        do {
            try await server.revoke(tombstone.enrolmentID, statement: tombstone.statement)
        } catch let error as ErsteGroupAuthError where error.code == .enrolmentRevoked {
            // The server has already deleted the enrolment.
        }
        _ = try await store([.delete(tombstone.id, ifGeneration: nil)], context)
    }

    /// Completes deletions that a crash or a missing network interrupted. The next call repeats
    /// what fails now.
    func finishDeletions(_ context: FlowContext) async {
        await finishRevocations()
        guard let tombstones = try? await rows.tombstones(for: context.prompt),
            let pending = try? await rows.pendingKeys(for: context.prompt)
        else { return }
        let isEnrolled = state.withLock { $0.enrolment != nil }
        // The server may still have easy-access keys of an existing enrolment. The next start
        // removes them there.
        for key in pending where key.role == .device || !isEnrolled {
            try? await discard(key, context)
        }
        let mine = tombstones.filter { $0.issuer == configuration.issuer }
        guard !mine.isEmpty, let server = try? await server() else { return }
        for tombstone in mine { try? await send(tombstone, at: server, in: context) }
    }

    /// Deletes an enrolment for which ``ErsteGroupAuth/initializeLocker(_:)`` throws
    /// `storageCorrupted` or `wrongDevice`. Text that was encrypted under it can't be decrypted any
    /// more. Does not prompt.
    ///
    /// If the device's key still signs, its revocation is stored, and the next initialization sends
    /// it to the server. Otherwise the user has to remove the device at the server.
    ///
    /// - Returns: Whether the server will be told.
    /// - Throws: ``ErsteGroupAuthError`` if the store can't be written.
    @discardableResult
    public static func forget(in records: RecordContainer) async throws(ErsteGroupAuthError) -> Bool
    {
        let operation = "forget the enrolment"
        let prompt = PromptContext(reason: operation, container: records.name)
        do {
            let row = try await records.metadata(LockerRows.enrolmentID)
            let named = ["deviceKey", "easyAccess"].map { row?.attributes[$0].flatMap(KeyID.init) }
            var keys: [HardwareKey] = []
            for id in named.compactMap({ $0 }) {
                if let key = try? await records.metadata(RecordID(id))?.key { keys.append(key) }
            }
            let ids =
                [LockerRows.enrolmentID, LockerRows.offlineID, LockerRows.countersID]
                + keys.map { RecordID($0.id) }
            let families = row?.attributes["enrolment"].map(Enrolment.classes) ?? []
            let changes = ids.map { RecordChange.delete($0, ifGeneration: nil) }
            let classes = families.map { ClassChange.drop(prefix: $0.prefix) }
            let device = keys.first { $0.id == named[0] }
            var isKept = false
            if let device, let issuer = row?.attributes["issuer"],
                let tombstone = try? await signRevocation(
                    of: device.publicKey.thumbprint, issuer: issuer, by: device, at: Date(),
                    records, prompt)
            {
                // Deleting rows must work even if the store accepts no new ones.
                isKept = (try? await records.apply([tombstone.put], for: prompt)) != nil
            }
            _ = try await records.apply(
                changes, classes: classes, for: prompt, authorizedBy: NobodyPresent())
            for key in keys where !key.isRevocable { try? await records.keystore.delete(key) }
            // The next start repeats revocations that fail now.
            try? await records.finishRevocations()
            return isKept
        } catch {
            throw ErsteGroupAuthError(any: error).during(operation)
        }
    }
}
