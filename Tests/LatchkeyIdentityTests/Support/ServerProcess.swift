import Foundation
import Latchkey
import LatchkeyTestSupport

/// `latchkey-identity` as a process.
struct ServerProcess: Sendable {
    /// The line on stdout when the program is ready.
    struct Ready: Decodable, Sendable {
        struct Account: Decodable, Sendable {
            let username: String
            let password: String
        }

        let endpoint: String
        let clientID: String
        let users: [Account]?
    }

    let ready: Ready
    private let process: RunningProgram

    /// The program in the test's build folder.
    static var program: URL {
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: ".build/debug/latchkey-identity")
    }

    /// Starts the program and waits for its line.
    init(_ arguments: [String]) async throws {
        process = try RunningProgram(Self.program, ["serve"] + arguments)
        let line = await process.output { _ in true }
        ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
    }

    /// Ends the program with a signal.
    ///
    /// - Returns: Its exit code, or the number of the signal that ended it.
    func stop(_ signal: Int32 = SIGTERM) async -> Int32 {
        await process.stop(signal)
    }

    /// Runs the program until it exits.
    static func run(
        _ arguments: [String], input: String = ""
    ) async throws -> (status: Int32, output: String, errors: String) {
        let process = try RunningProgram(program, arguments, input: input)
        let (output, errors) = await process.remainder()
        return (await process.wait(), output, errors)
    }
}
