import ArgumentParser

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Create or change the tables for this version.",
        discussion:
            "A server does this when it starts. Of several processes, one changes the tables, and the others wait.")

    @OptionGroup var store: DatabaseOption

    func run() async throws { _ = try await store.open() }
}

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check the configuration and the database, and print the numbers of rows.",
        discussion: "With a signing key file, also checks that it opens all signing keys in the database.")

    @OptionGroup var store: DatabaseOption
    @OptionGroup var signingKey: SigningKeyOption

    @Option(help: "The configuration, a JSON file.")
    var config: String?

    func run() async throws {
        if let config { _ = try ServerConfiguration(json: ServeCommand.read(config)) }
        if let cipher = try signingKey.cipher() { try await store.signingKeys(cipher).check() }
        try printLines([await store.administration().counts()])
    }
}
