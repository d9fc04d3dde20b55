import FoundationEssentials
import LatchkeyTestSupport

extension IdentityProcess {
    /// Runs `body` with a server in demo mode.
    ///
    /// - Parameters:
    ///   - database: The file of its database, which may exist.
    ///   - port: nil for a free one.
    ///   - hasRateLimits: False for tests with thousands of requests.
    static func withRunning<R>(
        database: String, port: String? = nil, hasRateLimits: Bool = true,
        _ body: (IdentityProcess) async throws -> R
    ) async throws -> R {
        var arguments = ["--demo", "--database", database] + (port.map { ["--port", $0] } ?? [])
        if !hasRateLimits {
            let file = database + ".json"
            try Data(unlimited.utf8).write(to: URL(filePath: file))
            arguments += ["--config", file]
        }
        return try await withRunning(arguments, body)
    }

    /// The configuration of the demo's client, with limits that no test reaches.
    private static let unlimited = """
        {"clients": [{"client_id": "latchkey-demo", "redirect_uris": ["http://127.0.0.1/callback"]}],
         "identity": {"biometric": {"list_enabled": true}},
         "rate_limits": {"token_per_address": 1000000, "challenge_per_address": 1000000}}
        """
}
