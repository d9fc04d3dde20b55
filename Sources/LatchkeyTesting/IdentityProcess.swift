internal import Foundation
internal import LatchkeySimulators
internal import Subprocess
internal import SystemPackage
internal import Testing

/// The identity server of this package, as a process of its own on a free port.
package struct IdentityProcess: Sendable {
    /// A user of a server in demo mode.
    package struct User: Decodable, Sendable {
        /// The name to log in with.
        package let username: String
        /// The password to log in with.
        package let password: String
    }

    /// The server's address, with its port.
    package let endpoint: String
    /// The client that the server knows.
    package let clientID: String
    /// The users that the server made up.
    package let users: [User]

    private struct Ready: Decodable {
        let endpoint: String
        let clientID: String
        let users: [User]
    }

    /// Runs the server for the time of `body`, and stops it.
    ///
    /// - Parameters:
    ///   - client: Members of the client's configuration.
    ///   - configuration: Other members of the server's configuration.
    /// - Throws: An issue of the test when the server does not start; whatever `body` throws.
    package static func with<R: Sendable>(
        client: [String: Any] = [:], _ configuration: [String: Any] = [:], _ body: (IdentityProcess) async throws -> R
    ) async throws -> R {
        let directory = try TemporaryDirectory()
        var configuration = configuration
        let standard: [String: Any] = ["client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]]
        configuration["clients"] = [standard.merging(client) { $1 }]
        let file = directory.path(of: "config.json")
        try JSONSerialization.data(withJSONObject: configuration).write(to: URL(filePath: file))
        let outcome = try await run(
            .path(FilePath(BuiltProduct.path(of: "latchkey-identity"))),
            arguments: ["serve", "--demo", "--config", file, "--log-level", "critical"],
            input: .none, output: .sequence, error: .string(limit: 1 << 16)
        ) { execution -> Result<R, any Error>? in
            var outcome: Result<R, any Error>?
            do {
                for try await line in execution.standardOutput.strings() {
                    let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
                    outcome = .success(
                        try await body(
                            IdentityProcess(endpoint: ready.endpoint, clientID: ready.clientID, users: ready.users)))
                    break
                }
            } catch {
                outcome = .failure(error)
            }
            await execution.teardown(using: [.send(signal: .terminate, allowedDurationToNextStep: .seconds(10))])
            return outcome
        }
        withExtendedLifetime(directory) {}
        return try #require(outcome.closureResult, "the server did not start: \(outcome.standardError)").get()
    }
}
