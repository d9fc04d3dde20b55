/// An authority for code that must not ask anybody: it answers every request with `unavailable`.
public struct NobodyPresent: PresenceAuthority {
    public init() {}

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        throw KeystoreError(
            operation: request.context.reason, code: .unavailable,
            reason: "a person is needed and this program can't ask one",
            recovery: "Run it where somebody can be asked, or pass a presence authority.")
    }
}
