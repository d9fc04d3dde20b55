import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential tag`.
struct CredentialTagCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "tag",
        abstract: "Set a credential's tags. The token stays closed.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The credential's id, or the beginning of it.", valueName: "id"))
    var id: String

    @Argument(help: ArgumentHelp("A tag to set; an empty value takes it away.", valueName: "k=v"))
    var tags: [TagArgument]

    func perform(in context: CommandContext) async throws -> CredentialReport {
        let store = try await context.credentials()
        let credential = try store.stored(id)
        try await store.open()
        let changed = try credential.metadata.tags.merging(tags.tags) { $1 }
        try credential.setTags(changed.filter { !$0.value.isEmpty })
        return try store.report(credential)
    }
}
