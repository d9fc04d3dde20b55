import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyCredentials
internal import LatchkeyJOSE

/// `latchkey credential`.
struct CredentialCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credential",
        abstract: "Store, find, refresh and revoke OAuth tokens.",
        subcommands: [
            Add.self, List.self, Show.self, Default.self, Tag.self, Refresh.self, Revoke.self,
            Remove.self,
        ])
}

extension CredentialCommand {
    static let idHelp = ArgumentHelp(
        "The credential's ID, or the first 4 or more characters of it.", valueName: "id")

    /// `latchkey credential list`.
    struct List: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List credentials, oldest first. Does not prompt or use the keys.",
            discussion: """
                Each --where narrows the list to credentials with this tag. If the name begins with ‘claim.’, it is \
                a claim of the ID token, as in --where claim.sub=jane.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(
            name: .customLong("where"),
            help: ArgumentHelp(
                "List only credentials with this tag or claim. Repeatable.", valueName: "k=v"),
            transform: TagArgument.init)
        var conditions: [TagArgument] = []

        var operation: String? { "list the credentials" }

        func perform(in context: CommandContext) async throws -> CredentialListReport {
            let store = try await context.credentials()
            let found = try store.metadata { credential in
                conditions.reduce(.all) { query, condition in
                    let name = condition.name
                    guard name.hasPrefix(Self.claimPrefix) else {
                        return query && credential.tags[name] == condition.value
                    }
                    let claim = String(name.dropFirst(Self.claimPrefix.count))
                    return query && credential[claim] == condition.value
                }
            }
            // A store of other hardware has no default.
            _ = try await context.isForeign(store.records)
            let defaultID = try store.defaultCredential?.id
            return CredentialListReport(
                credentials: found.map { CredentialReport($0, isDefault: $0.id == defaultID) },
                isFiltered: !conditions.isEmpty, place: context.place)
        }

        private static let claimPrefix = "claim."
    }

    /// `latchkey credential show`.
    struct Show: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract: "Show a credential without its token. Does not prompt or use the keys.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: CredentialCommand.idHelp, completion: NameCompletion.credentials)
        var id: String

        var operation: String? { "show the credential" }

        func perform(in context: CommandContext) async throws -> CredentialReport {
            let store = try await context.credentials()
            _ = try await context.isForeign(store.records)
            return try store.report(store.stored(id))
        }
    }

    /// `latchkey credential default`.
    struct Default: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "default", abstract: "Show, set or clear the default credential.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Argument(help: CredentialCommand.idHelp, completion: NameCompletion.credentials)
        var id: String?

        @Flag(help: "Clear the default. No credential is removed.") var none = false

        func validate() throws {
            guard id == nil || !none else {
                throw ValidationError("Name a credential or give --none, not both.")
            }
        }

        var operation: String? {
            if id == nil, !none { return "show the default credential" }
            return id == nil ? "clear the default credential" : "set the default credential"
        }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let store = try await context.credentials()
            if let id {
                let credential = try store.stored(id)
                try await store.open()
                try store.setDefault(credential)
            } else if none {
                try store.setDefault(nil)
            } else {
                // For a store of other hardware, this prints a warning, and the store then shows no
                // default.
                _ = try await context.isForeign(store.records)
            }
            let found = try store.defaultCredential?.id
            return BriefReport(
                ["id": found.map(JSONValue.string) ?? .null],
                text: found ?? "There is no default credential.")
        }
    }

    /// `latchkey credential tag`.
    struct Tag: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "tag", abstract: "Set a credential's tags. Does not open the token.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: CredentialCommand.idHelp, completion: NameCompletion.credentials)
        var id: String

        @Argument(
            help: ArgumentHelp("A tag to set; an empty value removes the tag.", valueName: "k=v"),
            transform: TagArgument.init)
        var tags: [TagArgument]

        var operation: String? { "tag the credential" }

        func perform(in context: CommandContext) async throws -> CredentialReport {
            let store = try await context.credentials()
            let credential = try store.stored(id)
            try await store.open()
            let changed = try credential.metadata.tags.merging(tags.tags) { $1 }
            try credential.setTags(changed.filter { !$0.value.isEmpty })
            return try store.report(credential)
        }
    }
}

extension CommandContext {
    /// The container's credentials. Does not use the hardware.
    func credentials() async throws -> CredentialStore {
        CredentialStore(
            records: try await records(), presence: presence,
            transport: ServerTransport(log: log, console: console),
            configuration: CredentialConfiguration(additionalOrigins: trustedOrigins))
    }
}

extension CredentialStore {
    /// The credential with this ID, or the only one whose ID begins with it.
    ///
    /// - Throws: ``KeystoreError``: `notFound` if no credential matches, `invalidInput` if several
    ///   IDs begin with it.
    func stored(_ id: String) throws -> Credential {
        if let credential = try credential(id: id) { return credential }
        let fitting = try IDPrefix(id).map { try allIDs.filter($0.begins) } ?? []
        guard fitting.count < 2 else {
            throw KeystoreError(
                code: .invalidInput,
                reason: "‘\(id)’ begins the IDs of \(fitting.count) credentials: "
                    + fitting.prefix(5).joined(separator: ", ") + (fitting.count > 5 ? ", …" : ""),
                recovery: "Use the complete ID.")
        }
        guard let found = fitting.first, let credential = try credential(id: found) else {
            throw KeystoreError(
                code: .notFound, reason: "there is no credential ‘\(id)’",
                recovery:
                    "See ‘latchkey credential list’, and --container for those of other containers."
            )
        }
        return credential
    }

    /// The report of a credential in its current state.
    func report(_ credential: Credential, isRevocable: Bool? = nil) throws -> CredentialReport {
        CredentialReport(
            try credential.metadata, isDefault: try defaultCredential == credential,
            isRevocable: isRevocable)
    }
}

struct CredentialListReport: Report {
    let credentials: [CredentialReport]
    /// Whether the list has only the credentials with certain tags or claims.
    let isFiltered: Bool
    /// The value of ``CommandContext/place``.
    let place: String

    private enum CodingKeys: CodingKey {
        case credentials
    }

    var layout: Layout {
        guard !credentials.isEmpty else {
            return Layout("There are no \(isFiltered ? "such " : "")credentials\(place).")
        }
        let rows = credentials.map { credential in
            let id = printable(credential.id)
            let user = printable(credential.claims["sub"]?.string ?? "-")
            return Layout.Row(
                script: "\(id)\(credential.isDefault ? " *" : "")  \(user)  \(credential.tagText)",
                cells: [
                    Layout.Cell("\(id.prefix(8))\(credential.isDefault ? " *" : "")"),
                    Layout.Cell(credential.userName ?? ""),
                    Layout.Cell(printable(credential.issuer)),
                    credential.expiresAt.value.map { Layout.Cell($0) } ?? "",
                    Layout.Cell(credential.tagText),
                ])
        }
        return .table(["ID", "USER", "SERVER", "ENDS", "TAGS"], rows)
    }
}

/// A credential without its token.
struct CredentialReport: Report {
    let id: String
    let isDefault: Bool
    let tags: [String: String]
    let claims: [String: JSONValue]
    let issuer: String
    let clientID: String
    let policy: String
    let refreshable: Bool
    let issuedAt: Date
    let expiresAt: Nullable<Date>
    let createdAt: Date
    /// Whether the hardware can revoke its key; only in the report of `credential add`, for a
    /// policy that prompts.
    let isRevocable: Bool?

    private enum CodingKeys: String, CodingKey {
        case id, tags, claims, issuer, clientID, policy, refreshable, issuedAt, expiresAt,
            createdAt,
            isRevocable
        case isDefault = "default"
    }

    init(_ metadata: Token.Metadata, isDefault: Bool, isRevocable: Bool? = nil) {
        self.isRevocable = isRevocable
        id = metadata.id
        self.isDefault = isDefault
        tags = metadata.tags
        claims = metadata.claims
        issuer = metadata.server
        clientID = metadata.clientID
        policy = metadata.security.rawValue
        refreshable = metadata.isRefreshable
        issuedAt = metadata.issuedAt
        expiresAt = Nullable(metadata.expiresAt)
        createdAt = metadata.createdAt
    }

    var layout: Layout {
        let user = printable(claims["sub"]?.string ?? "unknown")
        let copies =
            isRevocable == false
            ? "This hardware cannot revoke the credential: a copy of the store still opens it after removal."
            : ""
        return Layout.fields(
            13,
            [
                ("Credential", Layout.Cell("\(printable(id))\(isDefault ? " (the default)" : "")")),
                ("User", Layout.Cell(script: user, userName ?? user)),
                ("Tags", Layout.Cell(tags.isEmpty ? "none" : tagText)),
                ("Server", Layout.Cell(printable(issuer))),
                ("Client", Layout.Cell(printable(clientID))), ("Policy", Layout.Cell(policy)),
                ("Ends", expiresAt.value.map { Layout.Cell($0) } ?? "unknown"),
                ("Refreshes", refreshable ? "yes" : "no"),
            ]
        ).then(Layout(copies))
    }

    /// The user's name for a person, otherwise the ID; nil without an ID token.
    fileprivate var userName: String? {
        ["preferred_username", "email", "name", "sub"].lazy.compactMap { claims[$0]?.string }
            .first.map(printable)
    }

    /// The tags in one line, sorted.
    var tagText: String {
        printable(
            tags.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " "))
    }
}

/// An argument of the form `name=value`. The value may be empty, and may contain equals signs.
struct TagArgument {
    let name: String
    let value: String

    /// - Throws: `ValidationError` without a name or an equals sign.
    init(_ argument: String) throws {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty else {
            throw ValidationError("A tag has the form name=value, such as service=purchase.")
        }
        (name, value) = (String(parts[0]), String(parts[1]))
    }
}

extension [TagArgument] {
    /// The tags by name. The last one wins if two have the same name.
    var tags: [String: String] {
        Dictionary(map { ($0.name, $0.value) }) { $1 }
    }
}
