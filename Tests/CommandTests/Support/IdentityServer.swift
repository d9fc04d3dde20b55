import FoundationEssentials
import Glibc
import LatchkeySimulators
import Subprocess
import Testing

/// A real `latchkey-identity` as a child process.
enum IdentityServer {
    struct Announcement: Decodable, Sendable {
        struct User: Decodable, Sendable {
            let username: String
            let password: String
        }

        let endpoint: String
        let clientID: String
        let users: [User]

        var port: String { String(endpoint.split(separator: ":").last ?? "") }
    }

    /// Runs `body` with a server, and ends the server with SIGTERM.
    ///
    /// - Parameters:
    ///   - database: The file of its database, which may exist.
    ///   - port: nil for a free one.
    ///   - life: The time limit, after which it is killed.
    ///   - isPatient: Whether the server has no rate limits, for tests with thousands of requests.
    static func withRunning<R: Sendable>(
        database: String, port: String? = nil, life: Duration = .seconds(180), isPatient: Bool = false,
        _ body: (Announcement) async throws -> R
    ) async throws -> R {
        var arguments = ["serve", "--demo", "--database", database] + (port.map { ["--port", $0] } ?? [])
        if isPatient {
            let file = database + ".json"
            try Data(patience.utf8).write(to: URL(filePath: file))
            arguments += ["--config", file]
        }
        let result = try await Subprocess.run(
            .path(Products.identityServer), arguments: Arguments(arguments), input: .none, output: .sequence,
            error: .discarded
        ) { execution in
            let process = execution.processIdentifier.value
            let watchdog = Task {
                try await Task.sleep(for: life)
                kill(process, SIGKILL)
            }
            defer { watchdog.cancel() }
            let outcome: Result<R, any Error>
            do {
                var announcement: Announcement?
                for try await line in execution.standardOutput.strings() {
                    announcement = try JSONDecoder().decode(Announcement.self, from: Data(line.utf8))
                    break
                }
                outcome = .success(try await body(#require(announcement, "the server ended without a word")))
            } catch {
                outcome = .failure(error)
            }
            await execution.teardown(using: [.send(signal: .terminate, allowedDurationToNextStep: .seconds(5))])
            return outcome
        }
        return try result.closureResult.get()
    }

    /// The configuration of the demo's client, with limits that no test reaches.
    private static let patience = """
        {"clients": [{"client_id": "latchkey-demo", "redirect_uris": ["http://127.0.0.1/callback"]}],
         "identity": {"biometric": {"list_enabled": true}},
         "rate_limits": {"token_per_address": 1000000, "challenge_per_address": 1000000, "biometric_per_user": 1000000,
                         "locker_per_address": 1000000, "locker_per_user": 1000000}}
        """
}
