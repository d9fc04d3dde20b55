import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential refresh`.
struct CredentialRefreshCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Get a new token from the server.",
        discussion: "Programs that refresh one credential at the same time share one request.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The credential's id, or the beginning of it.", valueName: "id"))
    var id: String

    func perform(in context: CommandContext) async throws -> CredentialReport {
        let store = try await context.credentials()
        let credential = try store.stored(id)
        try await credential.refresh()
        return try store.report(credential)
    }
}
