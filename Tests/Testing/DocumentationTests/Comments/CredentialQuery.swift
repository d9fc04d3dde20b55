import LatchkeyCredentials

private func purchases() throws -> [Credential] {
    try Credential.find { $0.tags["service"] == "purchase" && $0.subject != nil }
}
