import ArgumentParser
import LatchkeyLogin

/// `latchkey login`.
struct LoginCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Log in in the browser.",
        discussion: "The browser is the program that $BROWSER names, else xdg-open.")

    @OptionGroup var options: GlobalOptions
    @OptionGroup var server: BindServerOption

    func perform(in context: CommandContext) async throws -> SessionReport {
        let result = try await context.login(binding: server.bindServer).authorize()
        return SessionReport(container: context.settings.container, userInfo: result.userInfo, kid: nil)
    }
}
