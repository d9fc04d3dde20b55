internal import FoundationEssentials
internal import Subprocess
package import Testing

/// Runs a program of the system's: an oracle that this package did not write.
package struct SystemProgram: Sendable {
    private let name: String
    private let environment: [String: String]

    /// - Parameters:
    ///   - name: Found in `PATH`.
    ///   - environment: What its environment has beyond this process's.
    package init(_ name: String, environment: [String: String] = [:]) {
        self.name = name
        self.environment = environment
    }

    /// Runs it to its end.
    ///
    /// - Returns: What it printed, and whether it ended with 0.
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

    /// Runs it, and requires that it ends with 0.
    ///
    /// - Returns: What it printed on stdout and then on stderr.
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
