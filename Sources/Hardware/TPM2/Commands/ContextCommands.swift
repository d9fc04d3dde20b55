/// `TPM2_ContextSave` (Part 3 section 28.2): saves an object or session. A session leaves the TPM,
/// an object stays loaded.
package struct ContextSave: TPMCommand {
    package typealias Response = SavedContext
    package static let code = TPMCommandCode.contextSave
    package let entities: [NamedHandle]

    package init(_ entity: any TPMEntity) { entities = NamedHandle.area(entity) }
}

/// `TPM2_ContextLoad` (section 28.3): loads a saved object or session. Returns a new handle for an
/// object, the old handle for a session.
package struct ContextLoad: TPMCommand {
    package typealias Response = TPMHandle
    package static let code = TPMCommandCode.contextLoad
    package static let returnsHandle = true
    private let context: SavedContext

    package init(_ context: SavedContext) { self.context = context }

    package func marshal(into writer: inout TPMWriter) { writer.write(context) }
}

/// `TPM2_FlushContext` (section 28.4): removes a loaded object or session.
package struct FlushContext: TPMCommand {
    package static let code = TPMCommandCode.flushContext
    private let handle: TPMHandle

    package init(_ handle: TPMHandle) { self.handle = handle }

    package func marshal(into writer: inout TPMWriter) { writer.write(handle) }
}

/// `TPM2_EvictControl` (section 28.5): makes a loaded object persistent at a handle, or removes a
/// persistent object.
package struct EvictControl: TPMCommand {
    package static let code = TPMCommandCode.evictControl
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let handle: TPMHandle

    package init(_ object: TPMObject, at handle: TPMHandle, in hierarchy: Hierarchy = .owner) {
        entities = NamedHandle.area(hierarchy, object)
        self.handle = handle
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(handle) }
}

extension TPM {
    /// Lends an object or session to `body` and flushes it on all paths, unless the last use of a
    /// session closed it. If `body` throws, an error of the flush is dropped.
    package func lending<E: TPMEntity, R>(
        _ entity: E, _ body: (E) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let result: R
        do {
            result = try body(entity)
        } catch {
            if entity.isLoaded { try? execute(FlushContext(entity.handle)) }
            throw error
        }
        if entity.isLoaded { try execute(FlushContext(entity.handle)) }
        return result
    }

    /// Moves a session out of the TPM, so that it uses no slot during a prompt. ``FlushContext``
    /// with its handle discards the suspended session.
    package func suspend(_ session: Session) throws(TPMError) -> SuspendedSession {
        let context = try execute(ContextSave(session))
        session.isLoaded = false
        return SuspendedSession(context: context, state: session.state)
    }

    /// Loads a session that was suspended over this or another connection, lends it to `body`, and
    /// flushes it unless its last use closed it.
    package func withResumed<R>(
        _ suspended: SuspendedSession, _ body: (Session) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let handle = try execute(ContextLoad(suspended.context))
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
