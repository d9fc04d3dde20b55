import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential list`.
struct CredentialListCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the credentials, oldest first. Needs no hardware.")

    @OptionGroup var options: GlobalOptions

    @Option(
        name: .customLong("where"),
        help: ArgumentHelp(
            "Only those with this tag, or with ‘claim.NAME=VALUE’ this claim; may be repeated.",
            valueName: "name=value"))
    var conditions: [TagArgument] = []

    func perform(in context: CommandContext) async throws -> CredentialListReport {
        let store = try await context.credentials()
        guard let first = conditions.first else { return try CredentialListReport(store.all()) }
        return try CredentialListReport(
            store.find { fields in
                conditions.dropFirst().reduce(Self.query(first, fields)) { $0 && Self.query($1, fields) }
            })
    }

    private static func query(_ condition: TagArgument, _ fields: CredentialFields) -> CredentialQuery {
        let claim = "claim."
        guard condition.name.hasPrefix(claim) else { return fields.tags[condition.name] == condition.value }
        return fields[String(condition.name.dropFirst(claim.count))] == condition.value
    }
}

struct CredentialListReport: Report {
    let credentials: [CredentialReport]

    init(_ credentials: [Credential]) throws {
        self.credentials = try credentials.map(CredentialReport.init)
    }

    var text: String {
        credentials.isEmpty ? "There are no credentials." : credentials.map(\.line).joined(separator: "\n")
    }
}
