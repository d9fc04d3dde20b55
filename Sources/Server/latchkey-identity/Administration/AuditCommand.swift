import ArgumentParser

struct AuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit", abstract: "Print the audit log, oldest first, one line of JSON each.")

    @OptionGroup var store: DatabaseOption

    @Option(help: "Only the entries with a larger number.")
    var after = 0

    @Option(help: "The maximum number of entries.")
    var limit = 1_000

    func run() async throws {
        try printLines(await AuditLog(database: store.open()).entries(after: after, limit: limit))
    }
}
