import ArgumentParser
import Latchkey

/// `latchkey key show`.
struct KeyShowCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show one key. Needs no hardware.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The key's id, the beginning of it, or its label.", valueName: "id"))
    var key: KeyIDArgument

    func perform(in context: CommandContext) async throws -> KeyReport {
        KeyReport(try await context.records().storedKey(key).key)
    }
}
