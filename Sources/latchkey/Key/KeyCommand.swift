import ArgumentParser
import Latchkey

/// `latchkey key`.
struct KeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Make and use keys in the hardware.",
        subcommands: [
            KeyCreateCommand.self, KeyListCommand.self, KeyShowCommand.self, KeySignCommand.self,
            KeyExportCommand.self, KeyCSRCommand.self, KeyAttestCommand.self, KeyRenameCommand.self,
            KeyDeleteCommand.self,
        ])
}
