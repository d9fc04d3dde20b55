import ArgumentParser

struct SigningKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "signing-keys",
        abstract: "List, rotate, remove and encrypt the keys that sign ID tokens.",
        subcommands: [List.self, Rotate.self, Remove.self, Encrypt.self])

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
                Delete all other keys, also those that certify attestation keys, and sign with the new one at once, after a key \
                was disclosed or the key file was lost. Use a new key file, and restart the servers with it. The ID tokens and \
                certificates of the deleted keys become invalid.
                """)
        var discard = false

        func run() async throws {
            try printLines(await store.signingKeys(signingKey.cipher()).rotate(discarding: discard))
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Remove a signing key from the key set. Its ID tokens become invalid.",
            discussion: "If the key signed earlier, this also removes the keys before it.")

        @OptionGroup var store: DatabaseOption

        @Argument(help: "The key ID.")
        var kid: String

        func run() async throws {
            switch try await store.signingKeys().remove(kid) {
            case .removed: return
            case .unknown: throw NotFound("signing key", kid)
            case .refused:
                throw ValidationError(
                    "The key \(kid) signs ID tokens. Run signing-keys rotate first, or replace all keys with rotate --discard."
                )
            }
        }
    }

    struct Encrypt: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "encrypt",
            abstract: "Encrypt the keys of a SQLite file that was used without a key file.",
            discussion: """
                Also encrypts the keys that certify attestation keys. Stop the server first, and start it with the key file. Then \
                rotate: older backups contain the keys without encryption.
                """)

        @OptionGroup var store: DatabaseOption
        @OptionGroup var signingKey: SigningKeyOption

        func run() async throws {
            try printLines(await store.signingKeys(signingKey.cipher()).encrypt())
        }
    }
}
