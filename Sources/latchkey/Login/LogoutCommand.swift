import ArgumentParser
import LatchkeyLogin

/// `latchkey logout`.
struct LogoutCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "End the session, and disable biometric login unless told to keep it.")

    @OptionGroup var options: GlobalOptions
    @OptionGroup var server: BindServerOption

    @Flag(help: "Keep biometric login, so that the same user can log in with it again.")
    var keepBiometric = false

    @Flag(help: "Do everything that can be done on this machine, whatever the server says.")
    var force = false

    func perform(in context: CommandContext) async throws -> StatusReport {
        let container = try await context.login(binding: server.bindServer)
        try await context.pointingToForce {
            try await container.logout(keepBiometric: keepBiometric, force: force)
        }
        return StatusReport(try await ContainerStatus(of: context.records()), context.settings)
    }
}
