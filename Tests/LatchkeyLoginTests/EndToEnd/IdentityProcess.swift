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
    /// - Parameters:
    ///   - client: Members of the client's configuration.
    ///   - configuration: Other members of the server's configuration.
    static func with(
        client: [String: Any] = [:], _ configuration: [String: Any] = [:],
        _ body: @Sendable (IdentityProcess) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory()
        var configuration = configuration
        let standard: [String: Any] = ["client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]]
        configuration["clients"] = [standard.merging(client) { $1 }]
        let file = directory.path(of: "config.json")
        try JSONSerialization.data(withJSONObject: configuration).write(to: URL(filePath: file))
        let outcome = try await run(
            .path(.init(executable)), arguments: ["serve", "--demo", "--config", file, "--log-level", "critical"],
            input: .none, output: .sequence, error: .string(limit: 1 << 16)
        ) { execution in
            var line = ""
            for try await chunk in execution.standardOutput {
                line += chunk.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
                guard line.hasSuffix("\n") else { continue }
                let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
                do {
                    try await body(
                        IdentityProcess(endpoint: ready.endpoint, clientID: ready.clientID, users: ready.users))
                } catch {
                    await execution.teardown(using: [])
                    throw error
                }
                await execution.teardown(using: [.send(signal: .terminate, allowedDurationToNextStep: .seconds(10))])
                return true
            }
            return false
        }
        #expect(outcome.closureResult, "the server did not start: \(outcome.standardError)")
        withExtendedLifetime(directory) {}
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
