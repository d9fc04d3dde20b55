import ArgumentParser
import LatchkeyLocker

/// `latchkey locker background`.
struct LockerBackgroundCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "background",
        abstract: "Get background access, to see that it works. Asks nobody.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> LockerReport {
        let session = try await LockerSession(in: context)
        try await session.enrolment("get background access")
        return try await session.opened(for: .background) { LockerReport(try await $0.backgroundAccess()) }
    }
}
