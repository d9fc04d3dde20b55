import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyCredentials
internal import LatchkeyJOSE
import LatchkeyServices

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

        static let createsStore = true

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(
            name: .customLong("tag"),
            help: ArgumentHelp("A tag to find the credential by. Repeatable.", valueName: "k=v"),
            transform: TagArgument.init)
        var tags: [TagArgument] = []

        @Option(
            help: """
                The user verification that the hardware requires to open the token. (default: none, or one that meets \
                the setting minimum-policy)
                """)
        var policy: AccessPolicy?

        var operation: String? { "add the credential" }

        func perform(in context: CommandContext) async throws -> CredentialReport {
            let chosen =
                try context.settings.requiresVerification || policy != nil
                ? context.settings.policy(policy) : AccessPolicy.none
            let token = try await Self.token(context.readSecret(), settings: context.settings)
            let store = try await context.credentials()
            let policy =
                if let chosen { chosen } else {
                    await store.records.keystore.preferredPolicy(
                        for: .sealing, through: context.presence)
                }
            try await context.checkSealing(store.records, under: policy)
            // Some tokens prompt to create the store's key.
            try await store.records.open(
                .device, for: context.prompt("open the store"), authorizedBy: context.presence)
            let credential = try await store.store(token, tags: tags.tags, security: policy)
            return try store.report(
                credential, isRevocable: await store.isStoredRevocably(id: credential.id))
        }

        /// Reads a token in the format of ``Token``, or a server's token response.
        private static func token(_ json: SecretBytes, settings: ProgramSettings) throws -> Token {
            let data = json.withUnsafeBytes { Data($0) }
            guard let members = (try? JSONDecoder().decode(JSONValue.self, from: data))?.object
            else {
                throw invalid("standard input is not a JSON object")
            }
            // Only the format of ``Token`` has this member.
            if members["response"]?.object != nil {
                do {
                    return try ReceivedJSON.decode(Token.self, from: data)
                } catch  where error is DecodingError || error is ReceivedJSON.Flaw {
                    throw invalid("the token does not have the format of this version")
                }
            }
            let server = settings.endpoint.flatMap { issuer in
                settings.clientID.map { Token.Context(issuer: issuer, clientID: $0) }
            }
            return try Token(response: data, context: server)
        }

        private static func invalid(_ reason: String) -> KeystoreError {
            KeystoreError(
                code: .invalidInput, reason: reason,
                recovery: "Pass the JSON object from the server's token endpoint.")
        }
    }

    /// `latchkey credential refresh`.
    struct Refresh: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "refresh",
            abstract: "Get a new token from the server.",
            discussion: "Programs that refresh one credential at the same time share one request.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: CredentialCommand.idHelp, completion: NameCompletion.credentials)
        var id: String

        var operation: String? { "refresh the credential" }

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

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: CredentialCommand.idHelp, completion: NameCompletion.credentials)
        var id: String

        @Option(help: "The part to revoke.") var type = RevocationArgument.all

        var operation: String? { "revoke the credential" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let store = try await context.credentials()
            let credential = try store.stored(id)
            try await credential.revoke(type: type.type)
            let isRemoved = try store.credential(id: credential.id) == nil
            let id = printable(credential.id)
            return BriefReport(
                [
                    "id": .string(credential.id), "revoked": .string(type.rawValue),
                    "removed": .bool(isRemoved),
                ],
                text: isRemoved
                    ? "The credential \(id) is revoked and removed."
                    : "Revoked; the credential \(id) stays.")
        }
    }

    /// `latchkey credential remove`.
    struct Remove: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract:
                "Remove a credential from this machine. Does not prompt or contact the server.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: CredentialCommand.idHelp, completion: NameCompletion.credentials)
        var id: String

        var operation: String? { "remove the credential" }

        func perform(in context: CommandContext) async throws -> RevokingReport<BriefReport> {
            let store = try await context.credentials()
            let credential = try store.stored(id)
            try credential.remove()
            // If the hardware fails now, the revocation stays pending.
            let records = try await context.records()
            try? await records.finishRevocations()
            let report = BriefReport(
                ["id": .string(credential.id), "removed": true],
                text: "The credential \(printable(credential.id)) is removed.")
            return await context.afterRevoking(report, in: records)
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
