import ArgumentParser
import Latchkey
import LatchkeyPKCS11

/// `latchkey token pin`.
struct TokenPINCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin",
        abstract: "Change a token's PIN, or set it as the security officer.",
        discussion: """
            Asks for the PIN that is set (with --so and --init the security officer's, with --unblock the PUK or the \
            security officer's PIN), then for the new one. Every key on the token has the same PIN.
            """)

    @OptionGroup var options: GlobalOptions

    @Flag(help: "Change the security officer's PIN (on a YubiKey: the management key) instead of the user's.")
    var so = false

    @Flag(name: .customLong("init"), help: "Set the user's PIN as the security officer.")
    var initialize = false

    @Flag(help: "Unblock the user's PIN after too many wrong ones.")
    var unblock = false

    func validate() throws {
        guard [so, initialize, unblock].count(where: \.self) <= 1 else {
            throw ValidationError("Give at most one of --so, --init and --unblock.")
        }
    }

    func perform(in context: CommandContext) async throws -> TokenPINReport {
        let administrator = try context.administrator()
        if so {
            try await administrator.changeSecurityOfficerPIN()
        } else if initialize {
            try await administrator.initializePIN()
        } else if unblock {
            try await administrator.unblockPIN()
        } else {
            try await administrator.changePIN()
        }
        return TokenPINReport(changed: so ? "securityOfficer" : "user")
    }
}

struct TokenPINReport: Report {
    /// Whose PIN is new: `user` or `securityOfficer`.
    let changed: String

    var text: String { changed == "user" ? "The token's new PIN holds." : "The security officer's new PIN holds." }
}
