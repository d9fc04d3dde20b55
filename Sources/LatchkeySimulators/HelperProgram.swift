internal import Latchkey
internal import Subprocess

/// Runs a program of the system to its end.
enum HelperProgram {
    struct Result: Sendable {
        let isSuccess: Bool
        /// What it wrote to stdout and stderr.
        let text: String
    }

    /// Runs `program`, found in `PATH`, and kills it when it takes longer than `limit`.
    ///
    /// - Parameter environment: What is set besides this process's environment.
    /// - Throws: ``KeystoreError`` with code `unavailable` when there is no such program or it took too long.
    static func run(
        _ program: String, _ arguments: [String], environment: [String: String] = [:], within limit: Duration
    ) async throws(KeystoreError) -> Result {
        let end: End
        do {
            end = try await withThrowingTaskGroup(of: End.self) { group in
                group.addTask { try await .itself(runToEnd(program, arguments, environment)) }
                group.addTask {
                    try await Task.sleep(for: limit)
                    return .late
                }
                defer { group.cancelAll() }
                return try await group.next() ?? .late
            }
        } catch {
            throw .missingProgram(program)
        }
        switch end {
        case .itself(let result): return result
        case .late:
            throw KeystoreError(
                operation: "run \(program)", code: .unavailable,
                reason: "it did not end within \(limit)", recovery: "Try again when the machine is less busy.")
        }
    }

    private enum End: Sendable {
        case itself(Result)
        case late
    }

    private static func runToEnd(
        _ program: String, _ arguments: [String], _ environment: [String: String]
    ) async throws -> Result {
        let result = try await Subprocess.run(
            Executable(program), arguments: Arguments(arguments), environment: .inherited(with: environment),
            input: .none, output: .string(limit: 64 * 1024), error: .string(limit: 64 * 1024))
        return Result(
            isSuccess: result.terminationStatus.isSuccess, text: result.standardOutput + result.standardError)
    }
}
