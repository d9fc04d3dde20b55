import ArgumentParser
import LatchkeyCredentials

/// `latchkey credential default`.
struct CredentialDefaultCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "default",
        abstract: "Show the default credential, or choose it. The first one that was added is it.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The credential to choose.")
    var id: String?

    @Flag(help: "Have no default credential.")
    var none = false

    func validate() throws {
        guard id == nil || !none else { throw ValidationError("Give either an id or --none.") }
    }

    func perform(in context: CommandContext) async throws -> CredentialDefaultReport {
        let store = try await context.credentials()
        if none {
            try await store.setDefault(nil)
        } else if let id {
            try await store.setDefault(store.found(id))
        }
        return CredentialDefaultReport(id: Nullable(try store.defaultCredential()?.id))
    }
}

struct CredentialDefaultReport: Report {
    let id: Nullable<String>

    var text: String { id.value ?? "There is no default credential." }
}
