import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential`.
struct CredentialCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credential",
        abstract: "Keep OAuth tokens, find them, and have them refreshed and revoked.",
        subcommands: [
            CredentialAddCommand.self, CredentialListCommand.self, CredentialShowCommand.self,
            CredentialDefaultCommand.self, CredentialTagCommand.self, CredentialRefreshCommand.self,
            CredentialRevokeCommand.self, CredentialRemoveCommand.self,
        ])
}

extension CommandContext {
    /// The container's credentials. Nothing is opened yet.
    func credentials() async throws -> CredentialStore {
        CredentialStore(
            records: try await records(), presence: presence, transport: ServerTransport(log: log, console: console),
            configuration: CredentialConfiguration(additionalOrigins: settings.trustedOrigins))
    }
}

extension CredentialStore {
    /// The credential of this id, or the one whose id begins so.
    ///
    /// - Throws: ``KeystoreError``: `notFound` when there is none, `invalidInput` when several ids begin so.
    func stored(_ id: String) throws -> Credential {
        if let credential = try credential(id: id) { return credential }
        let fitting = try IDPrefix(id).map { try allIDs.filter($0.begins) } ?? []
        guard fitting.count < 2 else {
            throw KeystoreError(
                operation: "find the credential", code: .invalidInput,
                reason: "the ids of \(fitting.count) credentials begin with ‘\(id)’",
                recovery: "Write the whole id; see ‘latchkey credential list’.")
        }
        guard let found = fitting.first, let credential = try credential(id: found) else {
            throw KeystoreError.notFound(
                "find the credential", "there is no credential ‘\(id)’",
                recovery: "See ‘latchkey credential list’, and --container for those of other containers.")
        }
        return credential
    }

    /// The credential as it is now, as it is shown.
    func report(_ credential: Credential, isRevocable: Bool? = nil) throws -> CredentialReport {
        CredentialReport(
            try credential.metadata, isDefault: try defaultCredential == credential, isRevocable: isRevocable)
    }
}
