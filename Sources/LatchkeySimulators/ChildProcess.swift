internal import Glibc
internal import Latchkey
internal import Subprocess

/// A long-running child of this process that never outlives the object that stands for it.
///
/// Started through swift-subprocess, which clears the signal mask: a child that inherits the mask of a concurrency
/// thread would ignore SIGTERM.
final class ChildProcess: Sendable {
    /// How the child is made to end.
    enum Ending: Sendable {
        /// SIGTERM, and SIGKILL for one that is still there five seconds later.
        case terminate
        /// SIGKILL at once.
        case kill

        fileprivate var steps: [TeardownStep] {
            switch self {
            case .terminate: [.send(signal: .terminate, allowedDurationToNextStep: .seconds(5))]
            case .kill: []
            }
        }
    }

    let processIdentifier: pid_t
    private let orders: AsyncStream<Ending>.Continuation
    private let supervisor: Task<String, any Error>

    /// Starts `program`, found in `PATH` unless it is a path.
    ///
    /// - Parameter environment: What is set besides this process's environment.
    /// - Throws: ``KeystoreError`` with code `unavailable` when there is no such program.
    init(
        _ program: String, arguments: [String], environment: [String: String] = [:]
    ) async throws(KeystoreError) {
        let (orders, order) = AsyncStream.makeStream(of: Ending.self)
        let (starts, start) = AsyncStream.makeStream(of: pid_t.self)
        // Unstructured on purpose: the child serves until it is ended, also when the task that started it is
        // cancelled, so that an orderly shutdown stays possible.
        let supervisor = Task {
            defer { start.finish() }
            let result = try await Subprocess.run(
                Executable(program), arguments: Arguments(arguments), environment: .inherited(with: environment),
                input: .none, output: .discarded, error: .string(limit: 64 * 1024)
            ) { execution in
                start.yield(execution.processIdentifier.value)
                start.finish()
                // Without an order the loop ends because nobody holds the object any more.
                for await ending in orders {
                    await execution.teardown(using: ending.steps)
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

    /// Whether the child has not exited yet.
    var isRunning: Bool {
        var status = siginfo_t()
        // WNOWAIT leaves the child for swift-subprocess to reap.
        guard waitid(P_PID, id_t(processIdentifier), &status, WEXITED | WNOHANG | WNOWAIT) == 0 else { return false }
        return status.si_signo != SIGCHLD
    }

    /// Ends the child and returns when it is gone.
    ///
    /// - Returns: What the child wrote to its standard error.
    @discardableResult
    func end(by ending: Ending) async -> String {
        orders.yield(ending)
        orders.finish()
        return (try? await supervisor.value) ?? ""
    }
}
