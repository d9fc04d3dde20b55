import ArgumentParser
import LatchkeyLocker

/// `latchkey locker background`.
struct LockerBackgroundCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "background",
        abstract: "Get background access, to see that it works. Asks nobody.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> LockerReport {
        try await LockerSession(in: context).opened { LockerReport(try await $0.backgroundAccess()) }
    }
}
