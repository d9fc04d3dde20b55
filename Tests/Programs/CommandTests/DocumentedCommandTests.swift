import Foundation
import LatchkeySimulators
import Testing

/// The commands in the documentation's console blocks.
@Suite(.timeLimit(.minutes(15))) struct DocumentedCommandTests {
    /// The words before the first argument of each line that begins with `$ latchkey`.
    private static let commands: [String] = {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let guide = "Documentation/Guide.docc"
        let articles =
            (try? FileManager.default.contentsOfDirectory(atPath: root.appending(path: guide).path))
            ?? []
        let documents =
            articles.map { "\(guide)/\($0)" } + [
                "README.md", "swtpm/README.md", "Examples/README.md",
                "Sources/Hardware/LatchkeyPKCS11/LatchkeyPKCS11.docc/TokensAndYubiKeys.md",
            ]
        let texts = documents.compactMap {
            try? String(contentsOf: root.appending(path: $0), encoding: .utf8)
        }
        let lines = texts.joined().matches(
            of: /(?m)^ *\$ latchkey (?:--token \S+ )?(?<words>[a-z][a-z -]*)/)
        return Set(lines.map { $0.words.prefix { $0 != "-" }.trimmingCharacters(in: .whitespaces) })
            .sorted()
    }()

    @Test func `there are commands in the documentation`() {
        #expect(Self.commands.contains("vault reset"))
        #expect(Self.commands.count > 10)
    }

    @Test(arguments: commands) func `each documented command exists`(_ command: String) async throws
    {
        let words = command.split(separator: " ").map(String.init)
        let help = try await Machine(tcti: nil).run(words + ["--help"])
        let usage = try #require(
            help.output.firstMatch(of: /USAGE: latchkey (?<path>[a-z -]+)(?<rest>.*)/))
        // The help of the group means that the command does not exist.
        #expect(!usage.rest.contains("<subcommand>"), "\(help.output)")
        #expect(
            command.hasPrefix(usage.path.prefix { $0 != "-" }.trimmingCharacters(in: .whitespaces)))
    }
}
