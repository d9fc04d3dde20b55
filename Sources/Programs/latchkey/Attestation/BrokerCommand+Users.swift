import ArgumentParser
import Latchkey
import LatchkeyJOSE
import LatchkeyPlatform
import LatchkeyPresence

extension BrokerCommand {
    /// `latchkey broker users`.
    struct Users: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "users",
            abstract:
                "List the users for whom the presence broker keeps a PIN or a counter. Needs root.",
            discussion: """
                Each of them uses places in the TPM, which has 32 for all users. A user without a name has no account \
                any more: a new account with the same user ID would get the PIN of the old one.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "list the users of the presence broker" }

        func perform(in context: CommandContext) async throws -> BrokerUsersReport {
            try BrokerCommand.requireRoot("list the users of the presence broker", "users")
            let users = try await SystemPresenceBroker().users()
            return BrokerUsersReport(
                users: users.sorted { $0.key < $1.key }.map {
                    BrokerUser(uid: $0, name: Nullable(Account.name(of: $0)), places: $1)
                })
        }
    }

    /// `latchkey broker forget`.
    struct Forget: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "forget",
            abstract:
                "Remove a user's PIN and counter from the presence broker and the TPM, for one who leaves. Needs root.",
            discussion: """
                The user's keys and secrets that need this PIN, or the fingers that were enrolled, cannot be used again. \
                At a terminal, asks for confirmation; without a terminal, requires --yes.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Argument(help: "The name of the account, or the user ID.") var user: String

        @Flag(help: Confirmation.help) var yes = false

        var operation: String? { "remove a user from the presence broker" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            try BrokerCommand.requireRoot(
                "remove a user from the presence broker", "forget \(user)")
            guard let uid = Account.userID(user) else {
                throw KeystoreError.invalidInput(
                    "‘\(user)’ is neither the name of an account nor a user ID")
            }
            let name =
                Account.name(of: uid).map { "\($0) (user ID \(uid))" }
                ?? "the user ID \(uid), which has no account"
            try await Confirmation.check(
                "The keys of \(name) that need the PIN of the presence broker cannot be used again.",
                isGiven: yes)
            try await SystemPresenceBroker().forget(uid)
            return BriefReport(
                ["uid": .number(Double(uid))],
                text: "The presence broker and the TPM keep nothing for \(printable(name)).")
        }
    }
}

/// The users of the presence broker.
struct BrokerUsersReport: Report {
    let users: [BrokerUser]

    var layout: Layout {
        guard !users.isEmpty else {
            return Layout("The presence broker keeps nothing for any user.")
        }
        return .table(["UID", "ACCOUNT", "PLACES IN THE TPM"], users.map(\.row))
    }
}

/// A user of the presence broker.
struct BrokerUser: Encodable, Sendable {
    let uid: UInt32
    /// `null` if the user ID has no account.
    let name: Nullable<String>
    /// The number of the TPM's indices.
    let places: Int

    fileprivate var row: Layout.Row {
        let account = name.value.map { printable($0) } ?? "none"
        return Layout.Row(
            script: "\(uid)  \(account)  \(places)",
            cells: [Layout.Cell("\(uid)"), Layout.Cell(account), Layout.Cell("\(places)")])
    }
}
