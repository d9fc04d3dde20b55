package import Foundation
internal import Subprocess
internal import Synchronization
package import Testing

/// A program that a test runs in parallel. Its methods do not block tasks; they read on separate threads.
package final class RunningProgram: Sendable {
    /// The time limit for a program's exit, in seconds. Then it is killed.
    package static let deadline = 20

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

    /// Reads standard output up to the first line that `isLast` accepts, or up to the program's exit.
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

    /// Sends a signal and waits for the program's exit.
    ///
    /// - Returns: The exit code, or the number of the signal that ended the program.
    @discardableResult
    package func stop(_ signal: Int32 = SIGTERM) async -> Int32 {
        kill(id, signal)
        return await wait()
    }

    /// Waits for the program's exit.
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

/// Runs an installed program, for example as an independent check of our results.
package struct SystemProgram: Sendable {
    private let name: String
    private let environment: [String: String]

    /// - Parameters:
    ///   - name: The program's name, found in `PATH`.
    ///   - environment: Variables to set in addition to this process's environment.
    package init(_ name: String, environment: [String: String] = [:]) {
        self.name = name
        self.environment = environment
    }

    /// Runs the program and waits for its exit.
    ///
    /// - Returns: Standard output, standard error, and whether the exit code is 0.
    package func result(
        of arguments: [String], input: [UInt8] = []
    ) async throws -> (output: String, errors: String, isSuccess: Bool) {
        let variables = environment.map { (Environment.Key(stringLiteral: $0), Optional($1)) }
        let result = try await Subprocess.run(
            .name(name), arguments: Arguments(arguments),
            environment: .inherit.updating(Dictionary(uniqueKeysWithValues: variables)),
            input: .array(input), output: .string(limit: 1 << 20), error: .string(limit: 1 << 20))
        return (result.standardOutput, result.standardError, result.terminationStatus.isSuccess)
    }

    /// Runs the program and requires the exit code 0.
    ///
    /// - Returns: Standard output followed by standard error.
    @discardableResult
    package func require(
        _ arguments: [String], input: [UInt8] = [], sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> String {
        let (output, errors, isSuccess) = try await result(of: arguments, input: input)
        try #require(
            isSuccess, "\(name) \(arguments.joined(separator: " ")): \(output)\(errors)",
            sourceLocation: sourceLocation)
        return output + errors
    }
}

/// Finds programs of this package in the build folder, and builds the C libraries of the tests there.
package enum BuiltProduct {
    /// The root folder of this package.
    package static let packageFolder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static let libraries = Mutex<[String: String]>([:])

    /// The path of a built program, in the folder of the running tests.
    package static func path(of program: String) throws -> String {
        let paths = try folders().map { $0.appending(path: program).path() }
        return try #require(paths.first { FileManager.default.fileExists(atPath: $0) }, "\(program) is not built")
    }

    /// Builds `Tests/NAME/NAME.c` as a dynamic library, once in each test process.
    ///
    /// The libraries are not products of the package, so that apps do not see them.
    ///
    /// - Returns: The path of the library, in the folder of the running tests.
    package static func library(_ name: String) throws -> String {
        try libraries.withLock { libraries in
            if let path = libraries[name] { return path }
            let path = try folders()[0].appending(path: "lib\(name).so").path()
            let source = packageFolder.appending(path: "Tests/\(name)/\(name).c").path()
            let compile = Process()
            compile.executableURL = URL(filePath: "/bin/sh")
            // The rename keeps the library complete for other test processes.
            compile.arguments = [
                "-c",
                """
                compiler=$(command -v clang || command -v cc) &&
                "$compiler" -shared -fPIC -O1 -g -o "$1.$$" "$2" $(pkg-config --cflags p11-kit-1) && mv "$1.$$" "$1"
                """, "sh", path, source,
            ]
            try compile.run()
            compile.waitUntilExit()
            try #require(compile.terminationStatus == 0, "the compiler failed for \(source)")
            libraries[name] = path
            return path
        }
    }

    /// The folders of the test bundle and of the program that runs it.
    private static func folders() throws -> [URL] {
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return [CommandLine.arguments.first ?? program, program].map {
            URL(filePath: $0).deletingLastPathComponent()
        }
    }
}
