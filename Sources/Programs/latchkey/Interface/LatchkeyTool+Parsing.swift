import ArgumentParser

extension LatchkeyTool {
    /// The command with its arguments.
    ///
    /// ArgumentParser parses the arguments once for each command of the path, with the global
    /// options of each. If the arguments start with the words of a command, this function parses
    /// them once, for that command.
    static func parse(_ arguments: [String]) throws -> any ParsableCommand {
        if let (command, rest) = named(by: arguments),
            let parsed = try? command.parseAsRoot(Array(rest)),
            type(of: parsed) == command
        {
            return parsed
        }
        // Help, which is another command, and errors name all commands of the path.
        return try parseAsRoot(arguments)
    }

    /// The command that the first words name, with the arguments after them; nil if they name none
    /// or a group.
    private static func named(by arguments: [String]) -> (
        any ParsableCommand.Type, ArraySlice<String>
    )? {
        var (command, rest): (any ParsableCommand.Type, _) = (LatchkeyTool.self, arguments[...])
        while case let commands = command.configuration.subcommands, !commands.isEmpty {
            guard let word = rest.popFirst(),
                let next = commands.first(where: { $0.configuration.commandName == word })
            else { return nil }
            command = next
        }
        return (command, rest)
    }
}
