import ArgumentParser
import Latchkey
import LatchkeyPKCS11

/// `latchkey token`.
struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Find PKCS#11 tokens, initialise them, and administer their PINs.",
        subcommands: [TokenListCommand.self, TokenInitCommand.self, TokenPINCommand.self])
}

extension CommandContext {
    /// What administers the token that was named.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` when none was.
    func administrator() throws(KeystoreError) -> TokenAdministrator {
        guard let uri = settings.token.uri else {
            throw KeystoreError(
                operation: "find the token", code: .invalidInput, reason: "none is named",
                recovery: "Name one with --token or LATCHKEY_TOKEN; ‘latchkey token list’ has the URIs.")
        }
        return TokenAdministrator(
            uri, options: settings.token.options, container: settings.container, presence: presence)
    }
}
