/// Context management commands, TPM 2.0 Part 3 section 28.
extension TPM {
    /// `TPM2_ContextSave` (section 28.2): saves an object or session. A session leaves the TPM, an
    /// object stays loaded.
    package func contextSave(_ entity: any TPMEntity) throws(TPMError) -> SavedContext {
        try result(of: .contextSave, on: [entity])
    }

    /// `TPM2_ContextLoad` (section 28.3): loads a saved object or session.
    ///
    /// - Returns: A new handle for an object, the old handle for a session.
    package func contextLoad(_ context: SavedContext) throws(TPMError) -> TPMHandle {
        try execute(.contextLoad, parameters: TPMWriter(context), returnsHandle: true) {
            (_, handle) throws(TPMError) in handle
        }
    }

    /// `TPM2_FlushContext` (section 28.4): removes a loaded object or session.
    public func flushContext(_ handle: TPMHandle) throws(TPMError) {
        try executeWithoutResult(.flushContext, parameters: TPMWriter(handle))
    }

    /// `TPM2_FlushContext`, and other work while the TPM executes it. The work is done once, also
    /// if the command fails.
    package func flushContext<R>(
        _ handle: TPMHandle, meanwhile work: () -> R
    ) -> (result: R, error: TPMError?) {
        var result: R?
        var failure: TPMError?
        do {
            try execute(
                .flushContext, parameters: TPMWriter(handle), meanwhile: { result = work() }
            ) {
                (_, _) throws(TPMError) in
            }
        } catch {
            failure = error
        }
        return (result ?? work(), failure)
    }

    /// `TPM2_EvictControl` (section 28.5): makes a loaded object persistent at `handle`, or removes
    /// `object` if it is persistent.
    public func evictControl(
        _ object: TPMObject, at handle: TPMHandle, in hierarchy: Hierarchy = .owner,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) {
        try executeWithoutResult(
            .evictControl, on: [hierarchy, object], authorizedBy: [authorization],
            parameters: TPMWriter(handle))
    }

    /// Lends an object or session to `body` and flushes it on all paths, unless the last use of a
    /// session closed it. If `body` throws, an error of the flush is dropped.
    package func lending<E: TPMEntity, R>(
        _ entity: E, _ body: (E) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try lending(entity, whileFlushing: { $0 }, body)
    }

    /// The same, with work on the result of `body` while the TPM flushes the entity.
    package func lending<E: TPMEntity, R, S>(
        _ entity: E, whileFlushing work: (R) -> S, _ body: (E) throws(TPMError) -> R
    ) throws(TPMError) -> S {
        let response: R
        do {
            response = try body(entity)
        } catch {
            if entity.isLoaded { try? flushContext(entity.handle) }
            throw error
        }
        guard entity.isLoaded else { return work(response) }
        let (result, error) = flushContext(entity.handle) { work(response) }
        if let error { throw error }
        return result
    }

    /// Moves a session out of the TPM, so that it uses no slot during a prompt.
    /// ``flushContext(_:)`` with its handle discards the suspended session.
    package func suspend(_ session: Session) throws(TPMError) -> SuspendedSession {
        let context = try contextSave(session)
        session.isLoaded = false
        return SuspendedSession(context: context, state: session.state)
    }

    /// Loads a session that was suspended over this or another connection, lends it to `body`, and
    /// flushes it unless its last use closed it.
    package func withResumed<R>(
        _ suspended: SuspendedSession, _ body: (Session) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let handle = try contextLoad(suspended.context)
        guard handle == suspended.handle else {
            throw .malformed("a resumed session has another handle")
        }
        return try lending(Session(suspended.state), body)
    }
}

/// A saved object or session, `TPMS_CONTEXT` (TPM 2.0 Part 2 section 14.5). The TPM encrypts it.
package struct SavedContext: Hashable, Sendable {
    /// The TPM's count of saved contexts.
    package let sequence: UInt64
    /// The kind of the saved object or session.
    package let savedHandle: TPMHandle
    /// The hierarchy of the object or session.
    package let hierarchy: TPMHandle
    /// The encrypted context.
    package let blob: [UInt8]
}

extension SavedContext: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        sequence = try reader.read()
        savedHandle = try reader.read()
        hierarchy = try reader.read()
        blob = try reader.readSized(maximum: TPM.maximumMessageBytes)
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(sequence, savedHandle, hierarchy, TPM2B(blob))
    }
}
