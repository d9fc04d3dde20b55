import LatchkeySimulators

extension Machine {
    /// A user's machine with a software token that no other test knows of.
    ///
    /// - Returns: The machine, whose `LATCHKEY_TOKEN` names the token, and the token, which lives as long as it is held.
    static func withToken(label: String = "Latchkey") async throws -> (Machine, SoftwareToken) {
        let token = try await SoftwareToken(label: label, userPIN: "123456", placement: .ownDirectory)
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment.merge(token.environment) { $1 }
        machine.environment["LATCHKEY_TOKEN"] = token.uri
        return (machine, token)
    }
}
