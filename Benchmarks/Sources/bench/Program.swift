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

    /// Runs the program with `meter` and waits for its exit.
    ///
    /// - Returns: The time from fork to exit, and the peak memory in bytes.
    func measure(_ arguments: [String]) throws -> (time: Duration, bytes: Int) {
        let printed = try Program.built("meter", environment: environment).run([name] + arguments)
        let numbers = String(decoding: printed, as: UTF8.self).split { !$0.isNumber }.compactMap {
            Int($0)
        }
        guard numbers.count == 2 else { throw Failure(reason: "meter said nothing of \(name)") }
        return (.nanoseconds(numbers[0]), numbers[1] * 1024)
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
