import ArgumentParser
import LatchkeyRelyingParty

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Create or change the tables for this version.",
        discussion:
            """
            A server and users add do this too. Of several processes, one changes the tables, and the others wait. All other \
            commands refuse a database without the tables of this version.
            """)

    @OptionGroup var store: DatabaseOption

    func run() async throws { _ = try await store.open(.migrated) }
}

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the configuration and the database, and print the numbers of rows.",
        discussion: """
            Reads the trust anchors of the configuration. With a signing key file, also checks that it opens all signing keys in \
            the database.
            """)

    @OptionGroup var store: DatabaseOption
    @OptionGroup var signingKey: SigningKeyOption

    func run() async throws {
        if let attestation = try store.serverConfiguration()?.attestation {
            _ = try AnchorFiles(attestation, clock: .system)
        }
        if let cipher = try signingKey.cipher() { try await store.signingKeys(cipher).check() }
        try printLines([await store.administration().counts()])
    }
}
