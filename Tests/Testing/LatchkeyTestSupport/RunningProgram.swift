package import Foundation
internal import LatchkeySimulators
internal import Synchronization

/// A program that a test runs in parallel. Its methods do not block tasks; they read on separate
/// threads.
package final class RunningProgram: Sendable {
    /// The process ID.
    package let id: Int32
    private let output: FileHandle
    private let errors: FileHandle
    private let process: Mutex<Process>
    private let status: Task<Int32, Never>

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: The program's path.
    ///   - input: The standard input.
    package init(_ program: URL, _ arguments: [String], input: String = "") throws {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        let (stdin, stdout, stderr) = (Pipe(), Pipe(), Pipe())
        process.standardInput = stdin
        process.standardOutput = stdout
        process.standardError = stderr
        let (statuses, ended) = AsyncStream.makeStream(of: Int32.self)
        process.terminationHandler = { process in
            ended.yield(process.terminationStatus)
            ended.finish()
        }
        try Self.withoutBlockedSignals { try process.run() }
        status = Task {
            for await status in statuses { return status }
            return -1
        }
        stdin.fileHandleForWriting.write(Data(input.utf8))
        try stdin.fileHandleForWriting.close()
        output = stdout.fileHandleForReading
        errors = stderr.fileHandleForReading
        id = process.processIdentifier
        self.process = Mutex(process)
    }

    /// A child inherits the signal mask of the thread that starts it, and Dispatch's threads block
    /// most signals.
    static func withoutBlockedSignals(_ body: () throws -> Void) rethrows {
        var (none, before) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        try body()
    }

    /// Reads standard output up to the first line that `isLast` accepts, or up to the program's
    /// exit.
    package func output(upTo isLast: @escaping @Sendable (String) -> Bool) async -> String {
        await Self.onThread { [output] in
            var seen = Data()
            while true {
                let more = output.availableData
                seen += more
                let text = String(decoding: seen, as: UTF8.self)
                if more.isEmpty || text.hasSuffix("\n") && isLast(text) { return text }
            }
        }
    }

    /// Reads the rest of standard output and standard error.
    package func remainder() async -> (output: String, errors: String) {
        async let output = Self.onThread { [output] in
            String(decoding: output.readDataToEndOfFile(), as: UTF8.self)
        }
        async let errors = Self.onThread { [errors] in
            String(decoding: errors.readDataToEndOfFile(), as: UTF8.self)
        }
        return await (output, errors)
    }

    /// Sends a signal.
    package func signal(_ signal: Int32) { kill(id, signal) }

    /// Sends a signal and waits for the program's exit.
    ///
    /// - Returns: The exit code, or the number of the signal that ended the program.
    @discardableResult
    package func stop(_ signal: Int32 = SIGTERM) async -> Int32 {
        self.signal(signal)
        return await wait()
    }

    /// Waits for the program's exit. A program that hangs is killed.
    @discardableResult
    package func wait() async -> Int32 {
        let watchdog = Task { [id] in
            try await Task.sleep(for: hangLimit)
            kill(id, SIGKILL)
        }
        defer { watchdog.cancel() }
        return await status.value
    }

    private static func onThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async
        -> Value
    {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: work()) }
        }
    }
}
