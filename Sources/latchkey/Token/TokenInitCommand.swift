import ArgumentParser
import Latchkey
import LatchkeyPKCS11

/// `latchkey token init`.
struct TokenInitCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Erase a token and give it a label and PINs.",
        discussion: """
            Asks for the security officer's PIN (the one that is set, where the token was initialised before; else a \
            new one), then for the user's new PIN. Where --token fits several tokens of which one is not initialised, \
            that one is meant. A YubiKey is not initialised this way: see ykman piv reset.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(help: "The token's new name, 1 to 32 bytes.")
    var label: String

    @Flag(help: "Erase a token that is initialised, with all keys on it, for good.")
    var erase = false

    func perform(in context: CommandContext) async throws -> TokenInitReport {
        let information = try await context.administrator().initialize(label: label, erasing: erase)
        return TokenInitReport(label: information.label, serial: information.serial)
    }
}

struct TokenInitReport: Report {
    let label: String
    let serial: String

    var text: String { printable("The token ‘\(label)’ is initialised; its serial number is \(serial).") }
}
