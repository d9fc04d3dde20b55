/// An authority for code that must not ask anybody: it answers every request with `unavailable`. Nor does an earlier
/// proof serve it, so that what it does never depends on who was there a moment ago.
public struct NobodyPresent: PresenceAuthority {
    /// An authority that asks nobody.
    public init() {}

    public var acceptsEarlierProof: Bool { false }

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        throw KeystoreError(
            operation: request.context.reason, code: .unavailable,
            reason: "a person is needed and this program can't ask one",
            recovery: "Run it where somebody can be asked, or pass a presence authority.")
    }
}
