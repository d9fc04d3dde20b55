import ArgumentParser
import Latchkey
import LatchkeyCredentials

/// `latchkey credential default`.
struct CredentialDefaultCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "default",
        abstract: "Show the default credential, or make one the default, or none.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The credential's id, or the beginning of it.", valueName: "id"))
    var id: String?

    @Flag(help: "Have no default. No credential is removed.")
    var none = false

    func validate() throws {
        guard id == nil || !none else { throw ValidationError("Name a credential or give --none, not both.") }
    }

    func perform(in context: CommandContext) async throws -> DefaultCredentialReport {
        let store = try await context.credentials()
        if let id {
            let credential = try store.stored(id)
            try await store.open()
            try store.setDefault(credential)
        } else if none {
            try store.setDefault(nil)
        }
        return DefaultCredentialReport(id: Nullable(try store.defaultCredential?.id))
    }
}

struct DefaultCredentialReport: Report {
    let id: Nullable<String>

    var text: String { id.value ?? "There is no default credential." }
}
