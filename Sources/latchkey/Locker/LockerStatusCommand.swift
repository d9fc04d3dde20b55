import ArgumentParser
import LatchkeyLocker

/// `latchkey locker status`.
struct LockerStatusCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show whether this machine is enrolled. Needs neither you nor the hardware nor the network.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> LockerReport {
        LockerReport(try await LockerSession(in: context).locker.storedStatus())
    }
}
