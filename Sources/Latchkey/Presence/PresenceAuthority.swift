/// Who obtains the proof that a person is there. The caller of a ``Keystore`` passes it in.
public protocol PresenceAuthority: Sendable {
    /// Asks for a PIN and waits for the person, within the authority's own deadline.
    ///
    /// Honours task cancellation by answering ``PINAnswer/declined(_:)``.
    ///
    /// - Throws: ``KeystoreError`` when nobody can be asked at all: `unavailable` without a terminal or pinentry,
    ///   `invalidInput` when what was typed can't be a PIN.
    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer

    /// Tells the person what to do at the hardware, while that waits. Returns soon; nothing depends on it.
    ///
    /// An authority without a place for messages need not have this method.
    func notice(_ notice: PresenceNotice) async
}

extension PresenceAuthority {
    public func notice(_ notice: PresenceNotice) async {}
}
