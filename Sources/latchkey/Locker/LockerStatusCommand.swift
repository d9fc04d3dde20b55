import ArgumentParser
import LatchkeyLocker

/// `latchkey locker status`.
struct LockerStatusCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show whether this machine is enrolled, and with whom. Needs neither you nor hardware nor network.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> LockerStatusReport {
        LockerStatusReport(try await StoredEnrolment(of: context.records()), context.settings)
    }
}
