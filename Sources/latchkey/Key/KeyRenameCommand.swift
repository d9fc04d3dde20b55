import ArgumentParser
import Latchkey

/// `latchkey key rename`.
struct KeyRenameCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename",
        abstract: "Give a key another label.",
        discussion: """
            If the key has its own PIN or is revocable, its authorization depends on the label. The command then prompts \
            for the PIN, and the TPM wraps the key again. Renaming a key of an earlier version binds it to its label.
            """)

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The key's id, the beginning of it, or its label.", valueName: "id"))
    var key: KeyIDArgument

    @Argument(help: "The new label, 1 to 256 bytes.")
    var label: String

    func validate() throws {
        guard (1...256).contains(label.utf8.count) else { throw ValidationError("A label has 1 to 256 bytes.") }
    }

    func perform(in context: CommandContext) async throws -> KeyReport {
        let records = try await context.records()
        let (stored, generation) = try await records.usableKey(key)
        try await records.checkIsOwn(stored, to: "rename a key")
        let prompt = context.prompt("rename the key ‘\(stored.label ?? stored.id.rawValue)’ to ‘\(label)’")
        let renamed = try await records.keystore.rename(
            stored, to: label, for: prompt, authorizedBy: context.presence)
        let record = Record(id: RecordID(stored.id), kind: .key, protection: .selfAuthenticated, key: renamed)
        try await records.apply([.put(record, payload: nil, ifGeneration: generation)], for: prompt)
        return KeyReport(renamed)
    }
}
