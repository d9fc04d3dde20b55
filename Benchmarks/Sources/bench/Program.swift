import Dispatch
import Foundation
import Synchronization

/// Runs a program as a process.
struct Program: Sendable {
    let name: String
    /// Variables to set in addition to this process's environment.
    var environment: [String: String] = [:]

    /// A program in the build folder of this program.
    static func built(_ name: String, environment: [String: String] = [:]) -> Program {
        Program(name: "\(directory)/\(name)", environment: environment)
    }

    private static let directory =
        URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().path

    /// Runs the program and waits for its exit.
    ///
    /// - Returns: The output.
    /// - Throws: ``Failure`` with the error output if the exit code is not 0.
    @discardableResult
    func run(_ arguments: [String]) throws -> Data {
        let (process, output) = process(arguments)
        let complaints = Pipe()
        process.standardError = complaints
        try process.run()
        // Reads both pipes at once: a program blocks while one of them is full.
        let reading = DispatchGroup()
        let complaint = Mutex(Data())
        DispatchQueue.global().async(group: reading) {
            let text = complaints.fileHandleForReading.readDataToEndOfFile()
            complaint.withLock { $0 = text }
        }
        let printed = output.fileHandleForReading.readDataToEndOfFile()
        reading.wait()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            let text = String(decoding: complaint.withLock { $0 }, as: UTF8.self)
            throw Failure(reason: "\(name) \(arguments.joined(separator: " ")): \(text)")
        }
        return printed
    }

    /// Runs the program and waits for its exit.
    ///
    /// - Returns: The time from fork to exit, to the millisecond.
    func measure(_ arguments: [String]) throws -> Duration {
        let script = #"TIMEFORMAT=%3R; { time "$@" >/dev/null 2>&1 </dev/null; } 2>&1"#
        let timed = Program(name: "bash", environment: environment)
        let printed = try timed.run(["-c", script, "bash", name] + arguments)
        guard let seconds = Double(String(decoding: printed, as: UTF8.self).dropLast()) else {
            throw Failure(reason: "bash did not print the time of \(name)")
        }
        return .seconds(seconds)
    }

    /// Starts the program, runs `body` (after the first line of output, if the program prints one),
    /// and ends the program.
    func serving<R>(
        _ arguments: [String], printsLine: Bool, _ body: (Int32, Data) async throws -> R
    ) async throws -> R {
        let (process, output) = process(arguments)
        try process.run()
        defer {
            process.terminate()
            process.waitUntilExit()
        }
        return try await body(
            process.processIdentifier,
            printsLine ? output.fileHandleForReading.availableData : Data())
    }

    private func process(_ arguments: [String]) -> (Process, Pipe) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [name] + arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        return (process, output)
    }
}
