import ArgumentParser
import Latchkey
import LatchkeyJOSE
import LatchkeyServices

/// `latchkey store`.
struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Archive and empty the store.", subcommands: [Reset.self])

    /// `latchkey store reset`.
    struct Reset: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "reset",
            abstract: "Archive the store and empty it, for all containers.",
            discussion: """
                Use it if the store was copied from another machine or is damaged, or if the TPM was cleared. Asks for \
                confirmation. The archive stays in the store’s directory. Only the hardware that protects it can open \
                it. The command deletes no key from the hardware or from a server. Revocable keys keep their space in the \
                TPM: if it still has them, delete them first.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Flag(help: Confirmation.help) var yes = false

        var operation: String? { "reset the store" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let archive = try await archiveStore(in: context)
            return BriefReport(
                ["archive": .string(archive)],
                text: "The store is empty. The archive is \(archive).")
        }

        /// - Returns: The path of the archive.
        private func archiveStore(in context: CommandContext) async throws(KeystoreError) -> String
        {
            do throws(KeystoreError) {
                let store = try await context.store()
                guard !store.isMissing else {
                    throw .notFound(
                        "there is no store at \(context.settings.store)",
                        recovery: "To name another directory, use --store.")
                }
                let contents = try await store.contents()
                try await confirm(Self.loss(of: contents))
                return try await store.startOver()
            } catch {
                guard error.code == .damaged else { throw error }
                try await confirm("The store cannot be opened: \(error.reason).")
                return try await RecordStore.startOver(directory: context.settings.store)
            }
        }

        private func confirm(_ loss: String) async throws(KeystoreError) {
            try await Confirmation.check(
                "\(loss) The store will be archived, and this user’s programs will get an empty store.",
                isGiven: yes)
        }

        /// For example `You will lose: in the container ‘default’ 2 keys, biometric login.`
        private static func loss(of contents: [RecordStore.Contents]) -> String {
            let parts = contents.compactMap { container in
                let things = container.kinds.sorted { $0.key < $1.key }.compactMap {
                    phrase($0.key, $0.value)
                }
                return things.isEmpty
                    ? nil : "in the container ‘\(container.name)’ \(things.joined(separator: ", "))"
            }
            return parts.isEmpty
                ? "The store contains nothing that you can lose."
                : "You will lose: \(parts.joined(separator: "; "))."
        }

        /// The words for a kind of record; nil for the auxiliary records of one that is counted.
        private static func phrase(_ kind: String, _ count: Int) -> String? {
            switch kind {
            case "key": counted("key", count)
            case "ssh.key": counted("SSH key", count)
            case "passkey": counted("passkey", count)
            case "login.key": "biometric login"
            case "login.session": "the session"
            case "revocation": counted("pending revocation", count)
            case "vault": counted("vault", count)
            case "credential": counted("credential", count)
            case "locker.enrolment": "the locker’s enrolment"
            case "login.user", "login.name", "login.pending", "login.hint", "login.dpop",
                "login.identity", "credential.token", "credential.pending", "credential.default",
                "credential.dpop", "locker.offline", "locker.counters", "locker.pending",
                "locker.tombstone", "locker.dpop":
                nil
            default: "\(counted("record", count)) of the kind ‘\(kind)’"
            }
        }

        private static func counted(_ noun: String, _ count: Int) -> String {
            count == 1 ? "1 \(noun)" : "\(count) \(noun)s"
        }
    }
}
