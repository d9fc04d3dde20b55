import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential`.
struct CredentialCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credential",
        abstract: "Keep OAuth tokens, find them, and have them refreshed and revoked.",
        discussion: "A token is never printed. What it says about you, and its tags, can be read without the hardware.",
        subcommands: [
            CredentialAddCommand.self, CredentialListCommand.self, CredentialShowCommand.self,
            CredentialDefaultCommand.self, CredentialTagCommand.self, CredentialRefreshCommand.self,
            CredentialRevokeCommand.self, CredentialRemoveCommand.self,
        ])
}

extension CommandContext {
    /// The container's credentials. Nothing is touched yet.
    func credentials() async throws -> CredentialStore {
        CredentialStore(records: try await records(), presence: presence, transport: LoggingTransport(log: log))
    }
}

extension CredentialStore {
    /// The credential of this id.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound` when there is none.
    func found(_ id: String) throws(KeystoreError) -> Credential {
        guard let credential = try with(id: id) else {
            throw .notFound(
                "find the credential", "the container ‘\(records.name)’ has none with the id ‘\(id)’",
                recovery: "See ‘latchkey credential list’, and --container for those of other containers.")
        }
        return credential
    }
}
