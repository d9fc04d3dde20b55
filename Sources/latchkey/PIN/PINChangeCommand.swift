import ArgumentParser
import Latchkey

/// `latchkey pin change`.
struct PINChangeCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "change",
        abstract: "Change the PIN of everything in the container that has one.",
        discussion: "Asks for the PIN that holds now, then for the new one.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> PINChangeReport {
        let count = try await context.records().changePIN(
            for: context.prompt("change the PIN"), authorizedBy: context.presence)
        return PINChangeReport(container: context.settings.container, changed: count)
    }
}

struct PINChangeReport: Report {
    let container: String
    /// How many keys and protection classes have the new PIN.
    let changed: Int

    var text: String { "The new PIN holds in the container ‘\(printable(container))’." }
}
