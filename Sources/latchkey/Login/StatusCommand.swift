import ArgumentParser
import LatchkeyLogin

/// `latchkey status`.
struct StatusCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the container's state. Needs neither you nor the hardware nor the network.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> StatusReport {
        StatusReport(try await ContainerStatus(of: context.records()), context.settings)
    }
}
