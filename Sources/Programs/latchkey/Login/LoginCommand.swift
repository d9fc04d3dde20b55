import ArgumentParser
import Latchkey
import LatchkeyLogin
import LatchkeyServices

/// `latchkey login`.
struct LoginCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Log in with the browser.",
        discussion: "Opens the login page with the program in $BROWSER, otherwise with xdg-open.")

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    var operation: String? { "log in" }

    func perform(in context: CommandContext) async throws -> SessionReport {
        let result = try await context.login().authorize()
        return SessionReport(
            container: context.settings.container, userInfo: result.userInfo, kid: nil)
    }
}

/// `latchkey authenticate`.
struct AuthenticateCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "authenticate",
        abstract: "Log in with the key and your PIN or fingerprint, without the browser.")

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    var operation: String? { "authenticate" }

    func perform(in context: CommandContext) async throws -> SessionReport {
        let result = try await context.login().authenticateBiometric()
        return SessionReport(
            container: context.settings.container, userInfo: result.userInfo,
            kid: result.keyID?.rawValue)
    }
}

/// `latchkey logout`.
struct LogoutCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "End the session and disable biometric login.")

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    @Flag(help: "Keep biometric login, so that the same user can log in with it again.")
    var keepBiometric = false

    @Flag(help: "Log out on this machine even if the server fails or refuses.") var force = false

    var operation: String? { "log out" }

    func perform(in context: CommandContext) async throws -> StatusReport {
        let container = try await context.login()
        try await mentioningForce {
            try await container.logout(keepBiometric: keepBiometric, force: force)
        }
        return StatusReport(try await ContainerStatus(of: context.records()), context.settings)
    }
}

/// The logged-in user.
struct SessionReport: SentenceReport {
    let container: String
    let userInfo: UserInfo
    /// The key that logged in, if any.
    let kid: String?

    var text: String {
        let name = userInfo.preferredUsername ?? userInfo.email ?? userInfo.name
        return
            "Logged in as \(printable(name.map { "\($0) (\(userInfo.userID))" } ?? userInfo.userID))."
    }
}
