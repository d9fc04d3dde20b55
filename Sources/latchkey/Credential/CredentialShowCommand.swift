import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential show`.
struct CredentialShowCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show what is known of a credential. Needs neither you nor the hardware.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The credential's id, or the beginning of it.", valueName: "id"))
    var id: String

    func perform(in context: CommandContext) async throws -> CredentialReport {
        let store = try await context.credentials()
        return try store.report(store.stored(id))
    }
}
