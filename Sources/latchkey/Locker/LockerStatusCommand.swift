import ArgumentParser
import LatchkeyLocker

/// `latchkey locker status`.
struct LockerStatusCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show whether this machine is enrolled. Needs neither you nor the hardware nor the network.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> LockerReport {
        let locker = try await LockerSession(in: context).locker
        return LockerReport(try await locker.storedStatus(), isRevocable: try await locker.isStoredRevocably())
    }
}
