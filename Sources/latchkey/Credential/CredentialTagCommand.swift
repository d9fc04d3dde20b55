import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential tag`.
struct CredentialTagCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "tag",
        abstract: "Replace a credential's tags. The token stays closed.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The credential's id.", valueName: "id"))
    var id: String

    @Argument(help: ArgumentHelp("All tags that it is to have; none takes them away.", valueName: "k=v"))
    var tags: [TagArgument] = []

    func perform(in context: CommandContext) async throws -> CredentialReport {
        let store = try await context.credentials()
        let credential = try store.stored(id)
        try await store.open()
        try credential.setTags(tags.tags)
        return try store.report(credential)
    }
}
