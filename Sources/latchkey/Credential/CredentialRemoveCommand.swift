import ArgumentParser
import LatchkeyCredentials

/// `latchkey credential remove`.
struct CredentialRemoveCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Forget a credential on this machine. The server is told nothing, and nobody is asked.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The credential's id.")
    var id: String

    func perform(in context: CommandContext) async throws -> CredentialRemovalReport {
        try await context.credentials().found(id).remove()
        return CredentialRemovalReport(id: id, revoked: nil, removed: true)
    }
}
