import ArgumentParser
import Latchkey

/// `latchkey key list`.
struct KeyListCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the container's keys, oldest first. Needs no hardware.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> KeyListReport {
        KeyListReport(keys: try await context.records().list(.key).compactMap(\.key).map(KeyReport.init))
    }
}

struct KeyListReport: Report {
    let keys: [KeyReport]

    var text: String {
        guard !keys.isEmpty else { return "There are no keys." }
        return keys.map { "\($0.id)  \($0.policy)  \($0.assurance)  \(printable($0.label.value ?? ""))" }
            .joined(separator: "\n")
    }
}
