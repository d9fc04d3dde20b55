extension TPM {
    /// Starts a session, lends it to `body`, and flushes it unless its last use has.
    ///
    /// - Parameters:
    ///   - key: The key to which the session is salted. The caller must know that its public area is the TPM's own:
    ///     never salt to what `ReadPublic` has just returned. Nil makes a session that proves and encrypts nothing.
    public func withSession<R>(
        _ kind: Session.Kind, saltedTo key: TPMObject?, _ body: (Session) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let session = try startAuthSession(kind, saltedTo: key)
        return try lending(body, session) { () throws(TPMError) in
            if session.isLoaded { try self.flushContext(session.handle) }
        }
    }

    /// Loads an object, lends it to `body`, and flushes it.
    public func withLoaded<R>(
        _ privatePart: PrivateBlob, _ publicArea: PublicArea, under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword, _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let object = try load(privatePart, publicArea, under: parent, authorizedBy: authorization)
        return try lending(body, object) { () throws(TPMError) in try self.flushContext(object.handle) }
    }

    /// Makes a primary object, lends it to `body`, and flushes it.
    public func withPrimary<R>(
        _ template: PublicArea, in hierarchy: Hierarchy, authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let primary = try createPrimary(template, in: hierarchy, authorizedBy: authorization)
        return try lending(body, primary) { () throws(TPMError) in try self.flushContext(primary.handle) }
    }

    /// Releases on every path. When `body` has thrown, its error is the one that matters.
    package func lending<T, R>(
        _ body: (T) throws(TPMError) -> R, _ value: T, release: () throws(TPMError) -> Void
    ) throws(TPMError) -> R {
        let result: R
        do {
            result = try body(value)
        } catch {
            try? release()
            throw error
        }
        try release()
        return result
    }
}
