import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyCredentials
internal import LatchkeyJOSE

extension CredentialCommand {
    /// `latchkey credential add`.
    struct Add: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Store a token from standard input.",
            discussion: """
                The input is the JSON object from the server's token endpoint. If its ID token does not name the \
                server and the client, --endpoint and --client-id do. The first credential of a container becomes \
                the default.
                """)

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Option(
            name: .customLong("tag"),
            help: ArgumentHelp("A tag to find the credential by. Repeatable.", valueName: "k=v"))
        var tags: [TagArgument] = []

        @Option(help: "The user verification that the hardware requires to open the token.")
        var policy = PolicyArgument(.none)

        func perform(in context: CommandContext) async throws -> CredentialReport {
            let token = try Self.token(context.readSecret("read the token"), settings: context.settings)
            let store = try await context.credentials()
            let credential = try await store.store(token, tags: tags.tags, security: policy.policy)
            return try store.report(credential, isRevocable: await store.isStoredRevocably(id: credential.id))
        }

        /// Reads a token in the format of ``Token``, or a server's token response.
        private static func token(_ json: SecretBytes, settings: Settings) throws -> Token {
            let data = json.withUnsafeBytes { Data($0) }
            guard (try? JSONDecoder().decode(Written.self, from: data)) == nil else {
                do {
                    return try JSONDecoder().decode(Token.self, from: data)
                } catch is DecodingError {
                    throw KeystoreError.invalidInput(
                        "read the token", "it is damaged, or from another version of Latchkey")
                }
            }
            var context: Token.Context?
            if let issuer = settings.endpoint, let clientID = settings.clientID {
                context = Token.Context(issuer: issuer, clientID: clientID)
            }
            return try Token(response: data, context: context)
        }

        /// The member that only the format of ``Token`` has.
        private struct Written: Decodable {
            let response: [String: JSONValue]
        }
    }

    /// `latchkey credential refresh`.
    struct Refresh: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "refresh",
            abstract: "Get a new token from the server.",
            discussion: "Programs that refresh one credential at the same time share one request.")

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Argument(help: CredentialReport.idHelp)
        var id: String

        func perform(in context: CommandContext) async throws -> CredentialReport {
            let store = try await context.credentials()
            let credential = try store.stored(id)
            try await credential.refresh()
            return try store.report(credential)
        }
    }

    /// `latchkey credential revoke`.
    struct Revoke: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Revoke the token, or a part of it, at the server.",
            discussion: """
                The command also removes the credential if no part of it can be used any more: always, except after \
                ‘access’ when there is a refresh token, and after ‘device’.
                """)

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Argument(help: CredentialReport.idHelp)
        var id: String

        @Option(help: "The part to revoke.")
        var type = RevocationArgument.all

        func perform(in context: CommandContext) async throws -> CredentialRevocationReport {
            let store = try await context.credentials()
            let credential = try store.stored(id)
            try await credential.revoke(type: type.type)
            return CredentialRevocationReport(
                id: credential.id, revoked: type.rawValue, removed: try store.credential(id: credential.id) == nil)
        }
    }

    /// `latchkey credential remove`.
    struct Remove: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Remove a credential from this machine. Does not prompt or contact the server.")

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Argument(help: CredentialReport.idHelp)
        var id: String

        func perform(in context: CommandContext) async throws -> RevokingReport<CredentialRemovalReport> {
            let store = try await context.credentials()
            let credential = try store.stored(id)
            try credential.remove()
            // If the hardware fails now, the revocation stays pending.
            let records = try await context.records()
            try? await records.finishRevocations()
            return await context.afterRevoking(CredentialRemovalReport(id: credential.id, removed: true), in: records)
        }
    }
}

/// The value of `--type`: a part of a token.
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

struct CredentialRemovalReport: Report {
    let id: String
    let removed: Bool

    var text: String { "The credential \(printable(id)) is removed." }
}
