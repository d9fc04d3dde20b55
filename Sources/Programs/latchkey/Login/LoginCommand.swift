import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyServices

/// `latchkey login`.
struct LoginCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Log in with the browser.",
        discussion: """
            Opens the login page with the program in $BROWSER, otherwise with xdg-open. The browser must reach this \
            machine: from another computer, run ‘ssh -L N:127.0.0.1:N’ there, and --callback-port N here. With --device, \
            the browser can be on any device, if the server offers that.
            """)

    static let createsStore = true

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    @Flag(help: "Show a code to enter on the server's page, in a browser on any device.")
    var device = false

    @Option(
        help: ArgumentHelp(
            "The port of this machine's loopback interface that the browser returns to. (default: a free port)",
            valueName: "port"))
    var callbackPort: UInt16?

    func validate() throws {
        guard !device || callbackPort == nil else {
            throw ValidationError("With --device, the browser does not return to a port.")
        }
        guard callbackPort != 0 else { throw ValidationError("A port is 1 to 65535.") }
    }

    var operation: String? { "log in" }

    func perform(in context: CommandContext) async throws -> SessionReport {
        let container = try await context.login()
        await warnOfLockout(in: context)
        let result: AuthorizeResult
        if device {
            let console = context.console
            result = try await container.authorize(onAnyDevice: {
                LoginCommand.show($0, on: console)
            })
        } else {
            suggestDevice(on: context.console, ProcessInfo.processInfo.environment)
            var options = AuthorizationOptions()
            options.callbackPort = callbackPort
            result = try await container.authorize(options)
        }
        return SessionReport(
            container: context.settings.container, userInfo: result.userInfo, kid: nil)
    }

    /// Shows the page and the code, even with `--quiet`.
    private static func show(_ authorization: DeviceAuthorization, on console: Console) {
        let minutes = (authorization.lifetime.components.seconds + 59) / 60
        console.warn(
            "Open this page in a browser on any device, and enter the code \(authorization.userCode) there. "
                + "The login waits \(minutes) minute\(minutes == 1 ? "" : "s").")
        console.warn(authorization.page.text)
        guard let page = authorization.pageWithCode else { return }
        console.warn("This page has the code already:")
        console.warn(page.text)
    }

    /// Says before the browser opens that the next step, `latchkey enable`, needs a PIN that the
    /// hardware does not accept. The login itself needs none.
    private func warnOfLockout(in context: CommandContext) async {
        // The login itself reports hardware that does not answer.
        guard let records = try? await context.records(),
            let lockout = try? await context.lockout(of: records.keystore)
        else { return }
        context.console.warn(
            "‘latchkey enable’ and keys with a PIN do not work now: \(printable(lockout.reason))."
        )
        context.console.warn(printable(lockout.advice))
    }

    /// The rule is that of `SystemBrowser`, which shows how another computer's browser reaches the
    /// page.
    private func suggestDevice(on console: Console, _ environment: [String: String]) {
        func isSet(_ name: String) -> Bool { environment[name]?.isEmpty == false }
        guard isSet("SSH_CONNECTION"), !isSet("DISPLAY"), !isSet("WAYLAND_DISPLAY") else { return }
        console.say(
            "In an SSH session, ‘latchkey login --device’ shows a code for a browser on any device, if the server offers "
                + "that.")
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

    static let createsStore = true

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
