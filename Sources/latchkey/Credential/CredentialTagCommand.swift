import ArgumentParser
import LatchkeyCredentials

/// `latchkey credential tag`.
struct CredentialTagCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "tag",
        abstract: "Set tags, or with ‘name=’ take one away; other tags stay.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The credential's id.")
    var id: String

    @Argument(help: ArgumentHelp("The tags.", valueName: "name=value"))
    var tags: [TagArgument]

    func perform(in context: CommandContext) async throws -> CredentialReport {
        let credential = try await context.credentials().found(id)
        var changed = try credential.metadata.tags
        for tag in tags { changed[tag.name] = tag.value.isEmpty ? nil : tag.value }
        try await credential.setTags(changed)
        return try CredentialReport(credential)
    }
}
