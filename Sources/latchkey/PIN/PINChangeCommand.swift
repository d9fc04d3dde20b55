import ArgumentParser
import Latchkey

/// `latchkey pin change`.
struct PINChangeCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "change",
        abstract: "Change the PIN of everything in the container that has one.",
        discussion: """
            Asks for the PIN that holds now, then for the new one. Where keys were made with different PINs, name the one to \
            change, or the vaults and credentials with --secrets. A token has one PIN.
            """)

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("Of this key only: its id, the beginning of it, or its label.", valueName: "id"))
    var key: KeyIDArgument?

    @Flag(help: "Of the vaults and credentials only.")
    var secrets = false

    func validate() throws {
        guard key == nil || !secrets else { throw ValidationError("Name a key or give --secrets, not both.") }
    }

    func perform(in context: CommandContext) async throws -> PINChangeReport {
        let records = try await context.records()
        let scope: PINScope =
            if let key {
                .key(try await records.usableKey(key).key.id)
            } else {
                secrets ? .classes : .container
            }
        do {
            let count = try await records.changePIN(
                of: scope, for: context.prompt("change the PIN"), authorizedBy: context.presence)
            return PINChangeReport(container: context.settings.container, changed: count)
        } catch {
            guard error.code == .wrongProof, case .container = scope else { throw error }
            context.console.say(
                "If keys here were made with different PINs, change them one at a time: latchkey pin change KEY, and --secrets "
                    + "for vaults and credentials.")
            throw error
        }
    }
}

struct PINChangeReport: Report {
    let container: String
    /// How many keys and protection classes have the new PIN.
    let changed: Int

    var text: String {
        let what = changed == 1 ? "one key or protection class" : "\(changed) keys and protection classes"
        return "The new PIN holds for \(what) of the container ‘\(printable(container))’."
    }
}
