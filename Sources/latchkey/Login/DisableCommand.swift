import ArgumentParser
import LatchkeyLogin

/// `latchkey disable`.
struct DisableCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "disable",
        abstract: "Disable biometric login: delete the key and have the server forget it.")

    @OptionGroup var options: GlobalOptions

    @Flag(help: "Disable on this machine only, whatever the server says.")
    var force = false

    func perform(in context: CommandContext) async throws -> StatusReport {
        let container = try await context.login()
        try await container.disableBiometric(force: force)
        return StatusReport(try await ContainerStatus(of: context.records()))
    }
}
