import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential list`.
struct CredentialListCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List credentials, oldest first. Needs neither you nor the hardware.",
        discussion: """
            Each --where narrows the list: to those with this tag, or, where the name begins with ‘claim.’, to those \
            whose ID token says so, as in --where claim.sub=jane.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(name: .customLong("where"), help: ArgumentHelp("Only those with this tag or claim.", valueName: "k=v"))
    var conditions: [TagArgument] = []

    func perform(in context: CommandContext) async throws -> CredentialListReport {
        let store = try await context.credentials()
        let found = try store.metadata { credential in
            conditions.reduce(.all) { query, condition in
                let name = condition.name
                guard name.hasPrefix(Self.claimPrefix) else { return query && credential.tags[name] == condition.value }
                let claim = Claim(rawValue: String(name.dropFirst(Self.claimPrefix.count)))
                return query && credential[claim] == condition.value
            }
        }
        let defaultID = try store.defaultCredential?.id
        return CredentialListReport(credentials: found.map { CredentialReport($0, isDefault: $0.id == defaultID) })
    }

    private static let claimPrefix = "claim."
}

struct CredentialListReport: Report {
    let credentials: [CredentialReport]

    var text: String {
        guard !credentials.isEmpty else { return "There are no such credentials." }
        return credentials.map { credential in
            let user = printable(credential.claims["sub"]?.string ?? "-")
            return "\(printable(credential.id))\(credential.isDefault ? " *" : "")  \(user)  \(credential.tagText)"
        }.joined(separator: "\n")
    }
}
