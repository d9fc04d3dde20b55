import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential revoke`.
struct CredentialRevokeCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Have the server forget the token, or a part of it.",
        discussion: """
            The credential is removed when nothing of it can be used any more: always, except after ‘access’ where \
            there is a refresh token, and after ‘device’.
            """)

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The credential's id, or the beginning of it.", valueName: "id"))
    var id: String

    @Option(help: "What to revoke: access, refresh, device or all.")
    var type = RevocationArgument.all

    func perform(in context: CommandContext) async throws -> CredentialRevocationReport {
        let store = try await context.credentials()
        let credential = try store.stored(id)
        try await credential.revoke(type: type.type)
        return CredentialRevocationReport(
            id: credential.id, revoked: type.rawValue, removed: try store.credential(id: credential.id) == nil)
    }
}

/// A part of a token as `--type` names it.
enum RevocationArgument: String, ExpressibleByArgument, CaseIterable {
    case access
    case refresh
    case device
    case all

    var type: Credential.RevokeType {
        switch self {
        case .access: .accessToken
        case .refresh: .refreshToken
        case .device: .deviceSecret
        case .all: .all
        }
    }
}

struct CredentialRevocationReport: Report {
    let id: String
    let revoked: String
    let removed: Bool

    var text: String {
        let id = printable(id)
        return removed ? "The credential \(id) is revoked and removed." : "Revoked; the credential \(id) stays."
    }
}
