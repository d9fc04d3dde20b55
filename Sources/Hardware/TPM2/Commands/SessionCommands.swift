/// `TPM2_StartAuthSession` (Part 3 section 11.1), not bound. The session stays open until it is
/// flushed or used for the last time, for example by ``TPM/withSession(_:saltedTo:_:)``.
package struct StartAuthSession: TPMCommand {
    package static let code = TPMCommandCode.startAuthSession
    package static let returnsHandle = true
    package let entities: [NamedHandle]
    private let kind: Session.Kind
    private let salt: SessionSalt?
    private let nonceCaller = Session.randomNonce()

    /// - Parameter key: See ``TPM/withSession(_:saltedTo:_:)``.
    /// - Throws: ``TPMError`` of kind `unsupported` unless it is a P-256 storage key.
    package init(_ kind: Session.Kind, saltedTo key: TPMObject?) throws(TPMError) {
        entities = [NamedHandle(unnamed: key?.handle ?? .null), NamedHandle(Hierarchy.null)]
        self.kind = kind
        salt = if let key { try SessionSalt(for: key.publicArea) } else { nil }
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(
            TPM2B(nonceCaller), TPM2B(salt?.encrypted ?? []), kind.rawValue,
            salt == nil ? SymmetricDefinition.null : .aes128CFB, TPMAlgorithm.sha256)
    }

    package func response(from reader: inout TPMReader) throws(TPMError) -> Session {
        let handle = try reader.read(TPMHandle.self)
        let nonceTPM = try reader.readSized(maximum: 64)
        guard nonceTPM.count == Session.nonceBytes, handle.isSession else {
            throw .malformed(
                "the nonce of a new session has the wrong length, or its handle has the wrong type")
        }
        return Session(
            handle: handle, kind: kind, salt: salt?.secret, nonceCaller: nonceCaller,
            nonceTPM: nonceTPM)
    }
}

extension TPM {
    /// Opens a session, lends it to `body`, and flushes it unless its last use closed it.
    ///
    /// - Parameters:
    ///   - key: The key to which the session is salted. The caller must know that its public area
    ///     is the TPM's own: do not salt to a key that `ReadPublic` has just returned. Nil opens a
    ///     session that authenticates and encrypts nothing.
    package func withSession<R>(
        _ kind: Session.Kind, saltedTo key: TPMObject?, _ body: (Session) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try lending(execute(StartAuthSession(kind, saltedTo: key)), body)
    }
}
