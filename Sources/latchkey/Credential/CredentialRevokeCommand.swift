import ArgumentParser
import LatchkeyCredentials

/// `latchkey credential revoke`.
struct CredentialRevokeCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Have the server take tokens back. A credential of which nothing useful is left is removed.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The credential's id.")
    var id: String

    @Option(help: "What to take back: all, access-token, refresh-token or device-secret.")
    var type = RevokeTypeArgument(type: .all)

    func perform(in context: CommandContext) async throws -> CredentialRemovalReport {
        let store = try await context.credentials()
        try await store.found(id).revoke(type: type.type)
        return CredentialRemovalReport(id: id, revoked: type.type.rawValue, removed: try store.with(id: id) == nil)
    }
}

/// What to take back, as `--type` names it.
struct RevokeTypeArgument: ExpressibleByArgument {
    let type: Credential.RevokeType

    init?(argument: String) {
        guard let type = Credential.RevokeType(rawValue: argument) else { return nil }
        self.type = type
    }

    init(type: Credential.RevokeType) { self.type = type }

    var defaultValueDescription: String { type.rawValue }

    static let allValueStrings = Credential.RevokeType.allCases.map(\.rawValue)
}

/// What is left of a credential.
struct CredentialRemovalReport: Report {
    let id: String
    /// What the server took back; nil where it was not asked.
    let revoked: String?
    let removed: Bool

    var text: String {
        let words = [revoked == nil ? nil : "revoked", removed ? "removed" : nil].compactMap(\.self)
        return "The credential \(id) was \(words.joined(separator: " and "))."
    }
}
