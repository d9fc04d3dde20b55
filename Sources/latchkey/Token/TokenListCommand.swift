import ArgumentParser
import Latchkey
import LatchkeyPKCS11

/// `latchkey token list`.
struct TokenListCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the tokens of this machine's PKCS#11 modules. Asks nobody.",
        discussion: """
            The modules are those that p11-kit is configured with, or the one that --token names. A module that can't be used is named with the reason.
            """)

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> TokenListReport {
        let options = context.settings.token.options.token
        guard let uri = context.settings.token.uri else {
            return TokenListReport(await TokenDirectory.read(options: options))
        }
        return TokenListReport(await TokenDirectory.read(uri, options: options))
    }
}

struct TokenListReport: Report {
    let tokens: [TokenReport]
    /// The modules that could not be used.
    let failures: [ModuleFailureReport]

    init(_ directory: TokenDirectory) {
        tokens = directory.tokens.map(TokenReport.init)
        failures = directory.failures.map(ModuleFailureReport.init)
    }

    var text: String {
        let found = tokens.isEmpty ? ["There are no tokens."] : tokens.map(\.text)
        return (found + failures.map(\.text)).joined(separator: "\n\n")
    }
}

/// A module that shows nothing.
struct ModuleFailureReport: Report {
    let modulePath: String
    let message: String
    let recovery: String

    init(_ failure: TokenDirectory.Failure) {
        let error = failure.keystoreError
        modulePath = failure.modulePath
        message = error.description
        recovery = error.recovery
    }

    var text: String { "\(printable(message))\n  \(printable(recovery))" }
}
