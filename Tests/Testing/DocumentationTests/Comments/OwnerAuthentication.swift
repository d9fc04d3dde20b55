import LatchkeyPresence

private func ownerAuthentication() async throws {
    try await OwnerAuthentication().evaluate(reason: "show the recovery codes")
}
