import Foundation
import LatchkeySimulators
import Subprocess
import SystemPackage
import Testing

/// The real server, as a process of its own on a free port.
struct IdentityProcess: Sendable {
    struct User: Decodable, Sendable {
        let username: String
        let password: String
    }

    let endpoint: String
    let clientID: String
    let users: [User]

    private struct Ready: Decodable {
        let endpoint: String
        let clientID: String
        let users: [User]
    }

    /// Runs the server for the time of `body`, and stops it.
    ///
    /// - Parameter locker: Members of the locker's configuration.
    static func with<R: Sendable>(
        locker: [String: any Sendable] = [:], _ body: (IdentityProcess) async throws -> R
    ) async throws -> R {
        let directory = try TemporaryDirectory()
        let configuration: [String: Any] = [
            "clients": [["client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]]],
            "extensions": ["locker": locker],
        ]
        let file = directory.path(of: "config.json")
        try JSONSerialization.data(withJSONObject: configuration).write(to: URL(filePath: file))
        let outcome = try await run(
            .path(FilePath(executable)), arguments: ["serve", "--demo", "--config", file, "--log-level", "critical"],
            input: .none, output: .sequence, error: .string(limit: 1 << 16)
        ) { execution in
            let outcome: Result<R, any Error>
            do {
                var ready: Ready?
                for try await line in execution.standardOutput.strings() {
                    ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
                    break
                }
                let server = try #require(ready, "the server ended without a word")
                outcome = .success(
                    try await body(
                        IdentityProcess(endpoint: server.endpoint, clientID: server.clientID, users: server.users)))
            } catch {
                outcome = .failure(error)
            }
            await execution.teardown(using: [.send(signal: .terminate, allowedDurationToNextStep: .seconds(10))])
            return outcome
        }
        withExtendedLifetime(directory) {}
        return try outcome.closureResult.get()
    }

    /// Beside the test bundle.
    private static var executable: String {
        get throws {
            let bundle = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let built = URL(filePath: CommandLine.arguments.first ?? bundle).deletingLastPathComponent().path
            let candidates = [built, URL(filePath: bundle).deletingLastPathComponent().path]
                .map { "\($0)/latchkey-identity" }
            return try #require(
                candidates.first { FileManager.default.isExecutableFile(atPath: $0) }, "latchkey-identity is not built")
        }
    }
}
