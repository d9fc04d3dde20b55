package import Foundation
internal import Synchronization

/// A program that a test runs beside itself. Nothing here blocks a task: reading has threads of its own.
package final class RunningProgram: Sendable {
    /// How long a program may take to end after it was asked to, in seconds. Then it is killed.
    package static let deadline = 20

    /// The process's number.
    package let id: Int32
    private let output: FileHandle
    private let errors: FileHandle
    private let process: Mutex<Process>
    private let status: Task<Int32, Never>

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: Its path.
    ///   - input: What it reads from stdin.
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
        try process.run()
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

    /// What it writes to stdout up to the first line that `isLast` accepts; less when it ends before.
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

    /// Everything that it still writes to stdout and stderr.
    package func remainder() async -> (output: String, errors: String) {
        async let output = Self.onThread { [output] in
            String(decoding: output.readDataToEndOfFile(), as: UTF8.self)
        }
        async let errors = Self.onThread { [errors] in
            String(decoding: errors.readDataToEndOfFile(), as: UTF8.self)
        }
        return await (output, errors)
    }

    /// Sends it a signal and waits until it has ended.
    ///
    /// - Returns: Its exit code, or the number of the signal that it died of.
    @discardableResult
    package func stop(_ signal: Int32 = SIGTERM) async -> Int32 {
        kill(id, signal)
        return await wait()
    }

    /// Waits until it has ended.
    @discardableResult
    package func wait() async -> Int32 {
        let watchdog = Task { [id] in
            try await Task.sleep(for: .seconds(Self.deadline))
            kill(id, SIGKILL)
        }
        defer { watchdog.cancel() }
        return await status.value
    }

    private static func onThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: work()) }
        }
    }
}
