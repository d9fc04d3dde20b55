internal import Glibc
package import Latchkey
internal import Subprocess
internal import SystemPackage

/// A long-running child process that ends when this object is released.
///
/// swift-subprocess starts it with a cleared signal mask. With the mask of a concurrency thread, it
/// would ignore SIGTERM.
final class ChildProcess: Sendable {
    let processIdentifier: pid_t
    private let orders: AsyncStream<Bool>.Continuation
    private let supervisor: Task<String, any Error>

    /// Starts `program`, found in `PATH` unless it is a path.
    ///
    /// - Parameter environment: Variables to set in addition to this process's environment.
    /// - Throws: ``KeystoreError`` with code `unavailable` if the program is not installed.
    init(
        _ program: String, arguments: [String], environment: [String: String] = [:]
    ) async throws(KeystoreError) {
        let (orders, order) = AsyncStream.makeStream(of: Bool.self)
        let (starts, start) = AsyncStream.makeStream(of: pid_t.self)
        // Unstructured, because the child must outlive a cancellation of the task that started it.
        let supervisor = Task {
            defer { start.finish() }
            let result = try await Subprocess.run(
                Executable(program), arguments: Arguments(arguments),
                environment: .inherited(with: environment),
                input: .none, output: .discarded, error: .string(limit: 64 * 1024)
            ) { execution in
                start.yield(execution.processIdentifier.value)
                start.finish()
                // The loop ends without an order when the object is released.
                for await isGraceful in orders where isGraceful {
                    await execution.teardown(using: [
                        .send(signal: .terminate, allowedDurationToNextStep: .seconds(5))
                    ])
                }
                await execution.teardown(using: [])
            }
            return result.standardError
        }
        guard let pid = await starts.first(where: { _ in true }) else {
            throw .missingProgram(program)
        }
        processIdentifier = pid
        self.orders = order
        self.supervisor = supervisor
    }

    deinit {
        orders.finish()
    }

    /// Whether the child still runs.
    var isRunning: Bool {
        var status = siginfo_t()
        // WNOWAIT leaves the child for swift-subprocess to reap.
        guard waitid(P_PID, id_t(processIdentifier), &status, WEXITED | WNOHANG | WNOWAIT) == 0
        else { return false }
        return status.si_signo != SIGCHLD
    }

    /// Ends the child (SIGKILL) and waits for its exit.
    ///
    /// - Parameter isGraceful: Whether to send SIGTERM first, and SIGKILL only if the child still
    ///   runs after five seconds.
    /// - Returns: The child's standard error output.
    @discardableResult
    func end(gracefully isGraceful: Bool = false) async -> String {
        orders.yield(isGraceful)
        orders.finish()
        return (try? await supervisor.value) ?? ""
    }
}

/// Runs a program and waits for its exit.
package enum HelperProgram {
    package struct Result: Sendable {
        package let isSuccess: Bool
        /// Standard output followed by standard error.
        package let text: String
    }

    /// Runs `program`, found in `PATH`, and kills it if it runs longer than `limit`.
    ///
    /// - Parameter environment: Variables to set in addition to this process's environment.
    /// - Throws: ``KeystoreError`` with code `unavailable` if the program is not installed or
    ///   reaches the limit.
    package static func run(
        _ program: String, _ arguments: [String], environment: [String: String] = [:],
        within limit: Duration = hangLimit
    ) async throws(KeystoreError) -> Result {
        let result: Result?
        do {
            result = try await withThrowingTaskGroup(of: Result?.self) { group in
                group.addTask {
                    let result = try await Subprocess.run(
                        Executable(program), arguments: Arguments(arguments),
                        environment: .inherited(with: environment), input: .none,
                        output: .string(limit: 64 * 1024), error: .string(limit: 64 * 1024))
                    return Result(
                        isSuccess: result.terminationStatus.isSuccess,
                        text: result.standardOutput + result.standardError)
                }
                group.addTask {
                    try await Task.sleep(for: limit)
                    return nil
                }
                defer { group.cancelAll() }
                return try await group.next() ?? nil
            }
        } catch {
            throw .missingProgram(program)
        }
        guard let result else {
            throw KeystoreError(
                operation: "run \(program)", code: .unavailable,
                reason: "it did not exit within \(limit)",
                recovery: "Try again when the machine is less busy.")
        }
        return result
    }
}

/// Runs `body`, then `teardown`, also if `body` throws.
package func withTeardown<R>(_ teardown: () async -> Void, _ body: () async throws -> R)
    async throws -> R
{
    do {
        let result = try await body()
        await teardown()
        return result
    } catch {
        await teardown()
        throw error
    }
}

/// The time limit of each wait for an event that comes unless a program hangs. A busy machine does
/// not reach it.
package let hangLimit = Duration.seconds(300)

/// Calls `condition` every three milliseconds until it returns true.
///
/// - Returns: false after `limit`, or if the task is cancelled.
@discardableResult
package func poll(for limit: Duration = hangLimit, until condition: () async throws -> Bool)
    async rethrows -> Bool
{
    let deadline = ContinuousClock.now + limit
    while ContinuousClock.now < deadline {
        if try await condition() { return true }
        guard (try? await Task.sleep(for: .milliseconds(3))) != nil else { return false }
    }
    return false
}

extension Environment {
    /// This process's environment with changed or added variables.
    static func inherited(with variables: [String: String]) -> Environment {
        .inherit.updating(
            variables.reduce(into: [:]) { $0[Environment.Key(stringLiteral: $1.key)] = $1.value })
    }
}

extension Executable {
    /// Creates an executable from a path, or from a name to find in `PATH`.
    init(_ program: String) {
        self = program.contains("/") ? .path(FilePath(program)) : .name(program)
    }
}
