import LatchkeyRelyingParty

private func statement(of kid: String) -> SQLText {
    let statement: SQLText = "SELECT jwk FROM latchkey_device WHERE kid = \(kid)"
    return statement
}
