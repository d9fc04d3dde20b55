import ArgumentParser

struct SigningKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "signing-keys",
        abstract: "List, rotate and remove the keys that sign ID tokens, also while servers run.",
        subcommands: [List.self, Rotate.self, Remove.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the signing keys, one line of JSON each.",
            discussion: """
                The state is next (published, signs later), current, retired (still published) or unpublished (verifies \
                id_token_hint only).
                """)

        @OptionGroup var store: DatabaseOption

        func run() async throws { try printLines(await store.signingKeys().lines()) }
    }

    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rotate", abstract: "Publish a new signing key, and list the keys.",
            discussion: """
                The new key signs after an hour, so that clients that cache the key set know it. The old key stays in the key set \
                until its tokens have expired.
                """)

        @OptionGroup var store: DatabaseOption
        @OptionGroup var signingKey: SigningKeyOption

        @Flag(
            help: """
                Delete all other keys and sign with the new one at once, after a key was disclosed or the key file was lost. \
                The ID tokens of the deleted keys become invalid.
                """)
        var discard = false

        func run() async throws {
            try printLines(await store.signingKeys(signingKey.cipher()).rotate(discarding: discard))
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove", abstract: "Remove a signing key from the key set. Its ID tokens become invalid.")

        @OptionGroup var store: DatabaseOption

        @Argument(help: "The key ID.")
        var kid: String

        func run() async throws {
            switch try await store.signingKeys().remove(kid) {
            case .removed: return
            case .unknown: throw ValidationError("There is no signing key \(kid).")
            case .refused:
                throw ValidationError(
                    "The key \(kid) signs ID tokens. Run signing-keys rotate first, or replace all keys with rotate --discard."
                )
            }
        }
    }
}
