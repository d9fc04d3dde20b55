import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyLocker
import LatchkeyServices

/// `latchkey locker`.
struct LockerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "locker",
        abstract: "Enrol this machine with a server, and encrypt data for sessions.",
        discussion: """
            A session lasts for one command: each command starts the session that it needs, and ends it. Between \
            commands, only data of the level ‘base’ can be decrypted. Starting a session prompts for your PIN or \
            fingerprint; if easy access is disabled, it opens the login page of the server. ‘background’ does not \
            prompt. The last wrong PIN that the hardware accepts disables easy access: log in with ‘start’, then \
            enable it again.
            """,
        subcommands: [
            Status.self, Start.self, Background.self, End.self, EasyAccess.self, Encrypt.self,
            Decrypt.self,
        ])
}

extension LockerCommand {
    /// `latchkey locker status`.
    struct Status: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract:
                "Show whether this machine is enrolled, and with which server. Does not prompt or use the network."
        )

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "show the enrolment" }

        func perform(in context: CommandContext) async throws -> LockerStatusReport {
            let records = try await context.records()
            let enrolment =
                try await context.isForeign(records) ? nil : StoredEnrolment(of: records)
            return LockerStatusReport(enrolment, context.settings)
        }
    }
}

/// The arguments of the commands that may start a session.
struct LockerArguments: ParsableArguments {
    @Flag(
        help: """
            Accept your PIN or fingerprint without the server if there is no network. Decrypts only data of the \
            levels ‘offline’ and ‘base’.
            """)
    var allowOffline = false

    @Flag(
        help: """
            Enrol with a server that stores no key shares. Then cryptography does not bind data to sessions.
            """)
    var withoutShares = false

    @Option(
        help: """
            The user verification that easy access requires, when it is set up. (default: user-presence if your \
            fingerprint can be checked here, otherwise pin)
            """)
    var policy: VerifyingPolicy?
}

/// The stored state of an enrolment.
struct LockerStatusReport: Report {
    /// `unregistered` or `enrolled`.
    let phase: String
    let easyAccessEnabled: Bool
    let endpoint: String?
    let clientID: String?
    let enrolmentID: String?
    let userID: String?
    /// Whether the server stores key shares.
    let levelShares: Bool?
    /// Whether the hardware can revoke the keys of the levels base and offline.
    let isRevocable: Bool?
    /// Whether the enrolment is with the configured server; absent if no server is configured.
    let isConfigured: Bool?

    init(_ enrolment: StoredEnrolment?, _ settings: ProgramSettings) {
        phase = (enrolment == nil ? SessionPhase.unregistered : .enrolled).rawValue
        easyAccessEnabled = enrolment?.isEasyAccessEnabled ?? false
        endpoint = enrolment?.issuer
        clientID = enrolment?.clientID
        enrolmentID = enrolment?.id
        userID = enrolment?.userID
        levelShares = enrolment?.hasLevelShares
        isRevocable = enrolment?.isRevocable
        isConfigured = enrolment.flatMap { enrolment in
            guard settings.endpoint != nil || settings.clientID != nil else { return nil }
            return settings.endpoint.map { ServerAddress.isSame($0, enrolment.issuer) } ?? true
                && settings.clientID.map { $0 == enrolment.clientID } ?? true
        }
    }

    var layout: Layout {
        guard let endpoint, let clientID, let enrolmentID, let userID, let levelShares else {
            return Layout("This machine is not enrolled.")
        }
        let shares =
            levelShares
            ? "stored by the server" : "none: cryptography does not bind data to sessions"
        let other =
            isConfigured == false ? " (another server is configured, so other commands fail)" : ""
        let copies =
            isRevocable == false
            ? "This hardware cannot revoke base and offline: a copy of the store can decrypt them on this machine after"
                + " ‘end --mode destroy’." : ""
        let fields = Layout.fields(
            17,
            [
                ("Server", Layout.Cell("\(printable(endpoint))\(other)")),
                ("Client", Layout.Cell(printable(clientID))),
                ("User", Layout.Cell(printable(userID))), ("Enrolment", Layout.Cell(enrolmentID)),
                ("Easy access", easyAccessEnabled ? Layout.Cell("enabled", .good) : "disabled"),
                ("Key shares", Layout.Cell(shares)),
            ])
        return .joined([Layout("This machine is enrolled."), fields, Layout(copies)])
    }
}

/// The state of a session at the end of the command.
struct LockerReport: SentenceReport {
    /// `unregistered`, `enrolled`, `activeViaStrongAuth`, `activeViaEasyAccess`, `backgroundAccess`
    /// or `verifiedOffline`.
    let phase: String
    let easyAccessEnabled: Bool
    let expiresAt: Date?
    let scopes: [String]?
    /// Whether the hardware can revoke `base`, `offline` and easy access; only in the reports of
    /// `locker start` and `easy-access`.
    let isRevocable: Bool?

    /// Whether the command changed the PIN or finger of easy access.
    private let hasNewSecret: Bool
    /// Whether the command destroyed the enrolment.
    private let isDestroyed: Bool

    private enum CodingKeys: CodingKey {
        case phase, easyAccessEnabled, expiresAt, scopes, isRevocable
    }

    init(
        _ status: AuthSessionStatus, hasNewSecret: Bool = false, isDestroyed: Bool = false,
        isRevocable: Bool? = nil
    ) {
        self.isDestroyed = isDestroyed
        self.isRevocable = isRevocable
        self.hasNewSecret = hasNewSecret
        phase = status.phase.rawValue
        easyAccessEnabled = status.isEasyAccessEnabled
        expiresAt = status.accessToken?.expiresAt
        scopes = status.accessToken?.scopes
    }

    var text: String {
        let words =
            switch SessionPhase(rawValue: phase) {
            case .enrolled: "This machine is enrolled."
            case .activeViaStrongAuth: "You are logged in; the session ends with this command."
            case .activeViaEasyAccess:
                "Your PIN or finger is verified; the session ends with this command."
            case .backgroundAccess: "Background access works; it ends with this command."
            case .verifiedOffline:
                "Your PIN or finger is verified without the server; the session ends with this command."
            case .unregistered, nil:
                isDestroyed
                    ? "The enrolment and its data on this machine are destroyed."
                    : "This machine is not enrolled."
            }
        guard phase != SessionPhase.unregistered.rawValue else { return words }
        let secret = hasNewSecret ? " It uses the new PIN or finger from now on." : ""
        let copies =
            isRevocable == false
            ? "\nThis hardware cannot revoke the enrolment: a copy of the store can decrypt base and offline on this machine after"
                + " ‘end --mode destroy’." : ""
        return
            "\(words) Easy access is \(easyAccessEnabled ? "enabled" : "disabled").\(secret)\(copies)"
    }
}
