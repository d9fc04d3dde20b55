package import Foundation
internal import Latchkey
package import Testing

/// An OpenID provider that this package did not write (Canaille), on a free port: it takes a refresh token once, knows
/// discovery, RS256, revocation, introspection and user info, and a client with a secret. `scripts/setup` installs it.
package struct OpenIDProvider: Decodable, Sendable {
    /// Its address.
    package let issuer: String
    package let clientID: String
    package let clientSecret: String
    /// The token endpoint's answer to a login with the nonce `n`, as JSON.
    package let answer: Data

    private enum CodingKeys: String, CodingKey {
        case issuer, clientID, clientSecret, answer
    }

    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
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

    /// Runs the provider for the time of `body`.
    ///
    /// - Parameter seconds: How long it holds each answer of its token endpoint back.
    /// - Returns: What `body` returns, and how many requests the token endpoint had.
    package static func withRunning<R>(
        holding seconds: Int = 0, _ body: (OpenIDProvider) async throws -> R
    ) async throws -> (result: R, tokenRequests: Int) {
        let script = folder.appending(path: "scripts/lib/openid-provider.py").path
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
    /// Skips the test, and says why, where the OpenID provider is not installed.
    package static var requiresOpenIDProvider: Self {
        .enabled(if: OpenIDProvider.isInstalled, "needs the OpenID provider that scripts/setup installs")
    }
}
