import ArgumentParser
import LatchkeyRelyingParty

struct ApprovalKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approval-keys",
        abstract: "List and remove the enrolled keys of presence brokers.",
        subcommands: [List.self, Remove.self])

    private struct Line: Encodable {
        let name: String
        let enrolledAt: String
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the enrolled approval keys, one line of JSON each."
        )

        @OptionGroup var store: DatabaseOption

        func run() async throws {
            let keys = try await DatabaseApprovalKeyRegistry(store.open()).all()
            try printLines(
                keys.map {
                    Line(
                        name: AttestationConfiguration.text($0.name),
                        enrolledAt: Administration.text($0.enrolledAt))
                })
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Stop accepting the fingerprints that a presence broker verifies.",
            discussion: """
                From now on, clients that require presence or finger refuse logins with the keys that this approval key opens.
                """)

        @OptionGroup var store: DatabaseOption

        @Argument(help: "The Name of the approval key: 68 hexadecimal digits.")
        var name: String

        func run() async throws {
            guard let bytes = AttestationConfiguration.name(name) else {
                throw ValidationError("A Name has 68 hexadecimal digits and begins with 000b.")
            }
            guard try await DatabaseApprovalKeyRegistry(store.open()).remove(bytes) else {
                throw NotFound("approval key", name)
            }
        }
    }
}
