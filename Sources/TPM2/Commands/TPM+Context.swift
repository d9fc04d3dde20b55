extension TPM {
    /// `TPM2_FlushContext` (Part 3 section 28.4): removes a loaded object or session.
    public func flushContext(_ handle: TPMHandle) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(handle)
        try execute(.flushContext, parameters: parameters)
    }

    /// `TPM2_ContextSave` (Part 3 section 28.2): swaps an object or session out. An object stays loaded as well, a
    /// session does not.
    public func contextSave(_ entity: any TPMEntity) throws(TPMError) -> SavedContext {
        try execute(.contextSave, on: [entity]) { (reader, _) throws(TPMError) in try reader.read() }
    }

    /// `TPM2_ContextLoad` (Part 3 section 28.3): swaps it in.
    ///
    /// - Returns: Its handle: a new one for an object, the old one for a session.
    public func contextLoad(_ context: SavedContext) throws(TPMError) -> TPMHandle {
        var parameters = TPMWriter()
        parameters.write(context)
        return try execute(.contextLoad, parameters: parameters, returnsHandle: true) {
            (_, handle) throws(TPMError) in handle
        }
    }

    /// Swaps a session out, so that it takes no place while a person is asked. ``flushContext(_:)`` with its handle
    /// gives it up as it is.
    public func suspend(_ session: Session) throws(TPMError) -> SuspendedSession {
        let context = try contextSave(session)
        session.isLoaded = false
        return SuspendedSession(context: context, session: session)
    }

    /// Swaps a session in that was suspended, here or over another connection, lends it to `body`, and flushes it unless
    /// its last use has.
    public func withResumed<R>(
        _ suspended: SuspendedSession, _ body: (Session) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let handle = try contextLoad(suspended.context)
        guard handle == suspended.handle else { throw .malformed("a session came back under another handle") }
        let session = suspended.session
        return try lending(body, session) { () throws(TPMError) in
            if session.isLoaded { try self.flushContext(session.handle) }
        }
    }
}
