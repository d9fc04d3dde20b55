package import Foundation
internal import Subprocess
internal import Synchronization
internal import SystemPackage
package import Testing

/// Runs a program to its exit, for example as an independent check of our results.
package struct SystemProgram: Sendable {
    /// The result of a run.
    package struct Outcome: Sendable {
        /// The exit code, or nil if a signal ended the program.
        package let status: Int32?
        package let output: String
        package let errors: String

        /// Whether the exit code is 0.
        package var isSuccess: Bool { status == 0 }
        /// Standard output followed by standard error.
        package var text: String { output + errors }
    }

    private let name: String
    private let environment: [String: String]

    /// - Parameters:
    ///   - name: The program's path, or its name in `PATH`.
    ///   - environment: Variables to set in addition to this process's environment.
    package init(_ name: String, environment: [String: String] = [:]) {
        self.name = name
        self.environment = environment
    }

    /// Runs the program and waits for its exit. It may write 1 MiB to each stream.
    package func result(of arguments: [String], input: [UInt8] = []) async throws -> Outcome {
        let variables = environment.map { (Environment.Key(stringLiteral: $0), Optional($1)) }
        let result = try await Subprocess.run(
            name.contains("/") ? .path(FilePath(name)) : .name(name),
            arguments: Arguments(arguments),
            environment: .inherit.updating(Dictionary(uniqueKeysWithValues: variables)),
            input: try .file(with: input), output: .string(limit: 1 << 20),
            error: .string(limit: 1 << 20))
        let status: Int32? =
            if case .exited(let code) = result.terminationStatus { code } else { nil }
        return Outcome(status: status, output: result.standardOutput, errors: result.standardError)
    }

    /// Runs the program and requires the exit code 0.
    ///
    /// - Returns: Standard output followed by standard error.
    @discardableResult
    package func require(
        _ arguments: [String], input: [UInt8] = [],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> String {
        let outcome = try await result(of: arguments, input: input)
        try #require(
            outcome.isSuccess, "\(name) \(arguments.joined(separator: " ")): \(outcome.text)",
            sourceLocation: sourceLocation)
        return outcome.text
    }
}

/// Finds programs of this package in the build folder, and builds the C libraries of the tests
/// there.
package enum BuiltProduct {
    /// The root folder of this package.
    package static let packageFolder = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    private static let libraries = Mutex<[String: String]>([:])

    /// The path of a built program, in the folder of the running tests.
    package static func path(of program: String) throws -> String {
        let paths = try folders().map { $0.appending(path: program).path() }
        return try #require(
            paths.first { FileManager.default.fileExists(atPath: $0) }, "\(program) is not built")
    }

    /// Builds `Tests/C/NAME/NAME.c` as a dynamic library, once in each test process.
    ///
    /// The libraries are not products of the package, so that apps do not see them.
    ///
    /// - Returns: The path of the library, in the folder of the running tests.
    package static func library(_ name: String) throws -> String {
        try libraries.withLock { libraries in
            if let path = libraries[name] { return path }
            let path = try folders()[0].appending(path: "lib\(name).so").path()
            let source = packageFolder.appending(path: "Tests/C/\(name)/\(name).c").path()
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
