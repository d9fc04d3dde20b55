import ArgumentParser
import Latchkey
import LatchkeyLogin

/// `latchkey authenticate`.
struct AuthenticateCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "authenticate",
        abstract: "Log in with the key and your PIN. No session is needed.")

    @OptionGroup var options: GlobalOptions
    @OptionGroup var server: BindServerOption

    func perform(in context: CommandContext) async throws -> SessionReport {
        let result = try await context.login(binding: server.bindServer).authenticateBiometric()
        return SessionReport(
            container: context.settings.container, userInfo: result.userInfo, kid: result.keyID?.rawValue)
    }
}
