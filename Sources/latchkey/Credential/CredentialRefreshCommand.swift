import ArgumentParser
import FoundationEssentials
import LatchkeyCredentials

/// `latchkey credential refresh`.
struct CredentialRefreshCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Get the next access token from the server. Programs that do so at once share one request.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The credential's id.")
    var id: String

    func perform(in context: CommandContext) async throws -> CredentialRefreshReport {
        let token = try await context.credentials().found(id).refresh()
        return CredentialRefreshReport(id: id, expiresAt: Nullable(token.expiresAt))
    }
}

struct CredentialRefreshReport: Report {
    let id: String
    let expiresAt: Nullable<Date>

    var text: String {
        let end = expiresAt.value.map { " It ends at \($0.formatted(.iso8601))." } ?? ""
        return "The credential \(id) has a new access token.\(end)"
    }
}
