/// What was found in a slot that has a token in it.
struct SlotReport: Sendable {
    let slot: UInt
    let token: Result<TokenInformation, CryptokiError>
}
