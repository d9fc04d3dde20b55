import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential remove`.
struct CredentialRemoveCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a credential from this device. Asks nobody, and tells the server nothing.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The credential's id.", valueName: "id"))
    var id: String

    func perform(in context: CommandContext) async throws -> RevokingReport<CredentialRemovalReport> {
        let store = try await context.credentials()
        try store.stored(id).remove()
        // What the hardware can't do now stays noted.
        let records = try await context.records()
        try? await records.finishRevocations()
        return await context.afterRevoking(CredentialRemovalReport(id: id, removed: true), in: records)
    }
}

struct CredentialRemovalReport: Report {
    let id: String
    let removed: Bool

    var text: String { "The credential \(id) is removed." }
}
