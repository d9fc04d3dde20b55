import ArgumentParser
import Latchkey

/// `latchkey key delete`.
struct KeyDeleteCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a key for good. Asks nobody.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The key's id.", valueName: "id"))
    var key: KeyIDArgument

    func perform(in context: CommandContext) async throws -> KeyDeletionReport {
        let records = try await context.records()
        let (stored, generation) = try await records.usableKey(key)
        guard stored.id.rawValue == key.text else {
            throw KeystoreError.invalidInput("delete a key", "deleting takes the whole id, ‘\(stored.id)’")
        }
        try await records.apply(
            [.delete(RecordID(stored.id), ifGeneration: generation)], for: context.prompt("delete a key"))
        // The row first: a crash in between leaves a key without a name, never a name without a key.
        try await records.keystore.delete(stored)
        return KeyDeletionReport(id: stored.id.rawValue, deleted: true)
    }
}

struct KeyDeletionReport: Report {
    let id: String
    let deleted: Bool

    var text: String { "The key \(id) is deleted." }
}
