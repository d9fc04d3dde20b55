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

    /// The service that looks at fingers, where the program may use one. By default there is none.
    var broker: PresenceBroker? { get }

    /// What the person would rather show. By default either.
    var preference: PresencePreference { get }

    /// Whether a proof that was given earlier may serve, within its key's time of reuse
    /// (``AccessPolicy/reuseSeconds``), so that nobody is asked. By default it may.
    var acceptsEarlierProof: Bool { get }
}

extension PresenceAuthority {
    public func notice(_ notice: PresenceNotice) async {}
    public var broker: PresenceBroker? { nil }
    public var preference: PresencePreference { .any }
    public var acceptsEarlierProof: Bool { true }
}
