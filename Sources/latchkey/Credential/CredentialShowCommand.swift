import ArgumentParser

/// `latchkey credential show`.
struct CredentialShowCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show what is known of a credential. Needs no hardware, and opens no token.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The credential's id.")
    var id: String

    func perform(in context: CommandContext) async throws -> CredentialReport {
        try CredentialReport(await context.credentials().found(id))
    }
}
