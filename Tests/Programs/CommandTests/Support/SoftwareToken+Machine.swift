import LatchkeySimulators

extension Machine {
    /// A machine with a new software token.
    ///
    /// - Returns: The machine, whose `LATCHKEY_TOKEN` names the token, and the token, which exists
    ///   while the caller holds it.
    static func withToken(label: String = "Latchkey") async throws -> (Machine, SoftwareToken) {
        let token = try await SoftwareToken(
            label: label, userPIN: "123456", placement: .ownDirectory)
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment.merge(token.environment) { $1 }
        machine.environment["LATCHKEY_TOKEN"] = token.uri
        return (machine, token)
    }
}
