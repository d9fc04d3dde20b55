import Foundation
import Subprocess
import Testing

/// The compiler with the modules of this build, for programs that depend on Latchkey.
struct Compiler {
    private struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The module search options, from SwiftPM's build description of this test target.
    private let places: [String]

    init() throws {
        let products = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent()
        let description = products.deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "\(products.lastPathComponent).yaml")
        let text = try String(contentsOf: description, encoding: .utf8)
        let command = try #require(
            text.components(separatedBy: "\n  \"").first { $0.hasPrefix("C.DocumentationTests-") },
            "\(description.path) has no command for these tests")
        let arguments = try #require(command.firstMatch(of: /\n    args: (?<list>\[.*\])/)?.list)
        var rest = try JSONDecoder().decode([String].self, from: Data(arguments.utf8)).dropFirst()[
            ...]
        var places: [String] = []
        while let argument = rest.popFirst() {
            switch argument {
            case "-I", "-Xcc", "-swift-version", "-target":
                places += [argument] + [rest.popFirst()].compactMap { $0 }
            case _ where argument.hasPrefix("-I"): places.append(argument)
            default: break
            }
        }
        self.places = places
    }

    /// Type-checks the files of one program. Throws the compiler's errors and warnings.
    ///
    /// - Parameter conditions: Compilation conditions, which SwiftPM defines for traits.
    func check(
        _ paths: [String], defining conditions: [String] = [], treatsWarningsAsErrors: Bool = true
    ) async throws {
        let result = try await Subprocess.run(
            .name("swiftc"),
            arguments: Arguments(
                ["-typecheck", "-parse-as-library"]
                    + (treatsWarningsAsErrors ? ["-warnings-as-errors"] : [])
                    + conditions.flatMap { ["-D", $0] } + places
                    + paths.map { Document.root.appending(path: $0).path }),
            output: .discarded, error: .string(limit: 1 << 20))
        guard result.terminationStatus.isSuccess else {
            throw Failure(description: result.standardError)
        }
    }
}
