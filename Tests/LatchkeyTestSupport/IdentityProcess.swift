package import Foundation
internal import Latchkey
internal import LatchkeyJOSE
internal import LatchkeySimulators
internal import Subprocess
internal import SystemPackage
package import Testing

/// A process of latchkey-identity in demo mode, on a free port.
package struct IdentityProcess: Sendable {
    /// A user of a server in demo mode.
    package struct User: Decodable, Sendable {
        /// The name for the login.
        package let username: String
        /// The password for the login.
        package let password: String
    }

    /// The server's URL with its port.
    package let endpoint: String
    /// The ID of the registered client.
    package let clientID: String
    /// The demo users.
    package let users: [User]

    private struct Ready: Decodable {
        let endpoint: String
        let clientID: String
        let users: [User]
    }

    /// Runs `body` with a running server, then stops the server.
    ///
    /// - Parameters:
    ///   - client: Members of the client's configuration.
    ///   - configuration: Other members of the server's configuration.
    /// - Throws: An issue of the test if the server does not start, or the error of `body`.
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

/// A process of Canaille, an independent OpenID provider, on a free port. `scripts/setup` installs it.
///
/// It supports single-use refresh tokens, discovery, RS256, revocation, introspection, user info and a client with a secret.
package struct OpenIDProvider: Decodable, Sendable {
    /// The issuer URL.
    package let issuer: String
    package let clientID: String
    package let clientSecret: String
    /// The token endpoint's JSON response to a login with the nonce `n`.
    package let answer: Data

    private enum CodingKeys: String, CodingKey {
        case issuer, clientID, clientSecret, answer
    }

    private static let interpreter: URL = {
        let cache = ProcessInfo.processInfo.environment["XDG_CACHE_HOME"] ?? "\(NSHomeDirectory())/.cache"
        return URL(filePath: "\(cache)/latchkey/canaille/bin/python")
    }()

    package static let isInstalled = FileManager.default.isExecutableFile(atPath: interpreter.path)

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        issuer = try container.decode(String.self, forKey: .issuer)
        clientID = try container.decode(String.self, forKey: .clientID)
        clientSecret = try container.decode(String.self, forKey: .clientSecret)
        answer = try JSONEncoder().encode(container.decode(JSONValue.self, forKey: .answer))
    }

    /// Runs `body` with a running provider, then stops the provider.
    ///
    /// - Parameter seconds: The delay of each response of the token endpoint.
    /// - Returns: The result of `body`, and the number of requests to the token endpoint.
    package static func withRunning<R>(
        holding seconds: Int = 0, _ body: (OpenIDProvider) async throws -> R
    ) async throws -> (result: R, tokenRequests: Int) {
        let script = BuiltProduct.packageFolder.appending(path: "scripts/lib/openid-provider.py").path
        let process = try RunningProgram(interpreter, [script, String(seconds)])
        let line = await process.output { _ in true }
        do {
            let provider = try JSONDecoder().decode(OpenIDProvider.self, from: Data(line.utf8))
            let result = try await body(provider)
            await process.stop()
            let requests = await process.remainder().errors.split(separator: "\n").count { $0 == "token" }
            return (result, requests)
        } catch {
            await process.stop()
            throw error
        }
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with the reason, if the OpenID provider is not installed.
    package static var requiresOpenIDProvider: Self {
        .enabled(if: OpenIDProvider.isInstalled, "needs the OpenID provider that scripts/setup installs")
    }
}
