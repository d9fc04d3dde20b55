import ArgumentParser
import Latchkey

/// `latchkey key`.
struct KeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Make and use keys in the hardware.",
        subcommands: [
            KeyCreateCommand.self, KeyListCommand.self, KeyShowCommand.self, KeySignCommand.self,
            KeyExportCommand.self, KeyAttestCommand.self, KeyDeleteCommand.self,
        ])
}

extension RecordContainer {
    /// The key of this name, from its row; the hardware is not asked.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound` when the container has no such key.
    func storedKey(_ id: KeyID) async throws(KeystoreError) -> (key: HardwareKey, generation: Int) {
        guard let record = try await metadata(RecordID(id)), record.kind == .key, let key = record.key else {
            throw .notFound(
                "find the key", "the container ‘\(name)’ has no key ‘\(id)’",
                recovery: "See ‘latchkey key list’, and --container for the keys of other containers.")
        }
        return (key, record.generation)
    }
}
