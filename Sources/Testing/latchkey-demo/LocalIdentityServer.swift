import FoundationEssentials
import Glibc
import Subprocess

/// The identity server of one demo.
enum LocalIdentityServer {
    /// The line that the server prints when it is ready.
    struct Address: Decodable, Sendable {
        struct User: Decodable, Sendable {
            let username: String
            let password: String
        }

        let endpoint: String
        let clientID: String
        let users: [User]?
    }

    private static let startLimit: Duration = .seconds(60)

    /// Runs `body` with a server that stores its data in memory.
    static func withRunning<R: Sendable>(_ body: (Address) async throws -> R) async throws -> R {
        let result = try await Subprocess.run(
            .path(try DemoProgram.sibling("latchkey-identity")), arguments: ["serve", "--demo"],
            input: .none, output: .sequence,
            error: .discarded
        ) { execution in
            let outcome: Result<R, any Error>
            do {
                outcome = .success(try await body(try await firstLine(execution)))
            } catch {
                outcome = .failure(error)
            }
            await execution.teardown(using: [
                .send(signal: .terminate, allowedDurationToNextStep: .seconds(5))
            ])
            return outcome
        }
        return try result.closureResult.get()
    }

    private static func firstLine<E>(_ execution: Execution<NoInput, SequenceOutput, E>)
        async throws -> Address
    {
        let process = execution.processIdentifier.value
        let watchdog = Task {
            try await Task.sleep(for: startLimit)
            kill(process, SIGKILL)
        }
        defer { watchdog.cancel() }
        for try await line in execution.standardOutput.strings() {
            return try JSONDecoder().decode(Address.self, from: Data(line.utf8))
        }
        throw DemoError("the identity server ended, or did not start within \(startLimit)")
    }
}
