import FoundationEssentials
import Glibc
import LatchkeySimulators
import Subprocess
import Testing

/// A real `latchkey-identity`, as a process of its own.
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

    /// Starts a server, lends it to `body`, and ends it with SIGTERM.
    ///
    /// - Parameters:
    ///   - database: The file that it keeps everything in; what is there it goes on with.
    ///   - port: nil for a free one.
    ///   - life: After how long it is killed.
    static func withRunning<R: Sendable>(
        database: String, port: String? = nil, life: Duration = .seconds(180), _ body: (Announcement) async throws -> R
    ) async throws -> R {
        let arguments = ["serve", "--demo", "--database", database] + (port.map { ["--port", $0] } ?? [])
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
}
