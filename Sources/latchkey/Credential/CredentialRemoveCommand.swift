import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential remove`.
struct CredentialRemoveCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a credential from this device. Asks nobody, and tells the server nothing.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The credential's id, or the beginning of it.", valueName: "id"))
    var id: String

    func perform(in context: CommandContext) async throws -> RevokingReport<CredentialRemovalReport> {
        let store = try await context.credentials()
        let credential = try store.stored(id)
        try credential.remove()
        // What the hardware can't do now stays noted.
        let records = try await context.records()
        try? await records.finishRevocations()
        return await context.afterRevoking(CredentialRemovalReport(id: credential.id, removed: true), in: records)
    }
}

struct CredentialRemovalReport: Report {
    let id: String
    let removed: Bool

    var text: String { "The credential \(printable(id)) is removed." }
}
