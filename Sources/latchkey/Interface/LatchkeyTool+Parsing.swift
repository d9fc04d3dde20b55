import ArgumentParser

extension LatchkeyTool {
    /// The command with its arguments.
    ///
    /// ArgumentParser parses the arguments once for each command of the path, with the global options of each. If the
    /// arguments start with the words of a command, this function parses them once, for that command.
    static func parse(_ arguments: [String]) throws -> any ParsableCommand {
        if let (command, rest) = named(by: arguments), let parsed = directly(command, Array(rest)) { return parsed }
        // Help, which is another command, and errors name all commands of the path.
        return try parseAsRoot(arguments)
    }

    /// The command with its arguments; nil if they are wrong or ask for help.
    private static func directly<Command: ParsableCommand>(
        _ command: Command.Type, _ arguments: [String]
    ) -> (any ParsableCommand)? {
        (try? DirectCommand<Command>.parseAsRoot(arguments) as? DirectCommand<Command>)?.command
    }

    /// The command that the first words name, with the arguments after them; nil if they name none or a group.
    private static func named(by arguments: [String]) -> (any ParsableCommand.Type, ArraySlice<String>)? {
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

/// Parses the arguments of one command. Because it has a super command, ArgumentParser does not look for a request for a
/// completion script, which takes a quarter of the time of a short command.
private struct DirectCommand<Command: ParsableCommand>: ParsableCommand {
    static var configuration: CommandConfiguration { CommandConfiguration(_superCommandName: "latchkey") }

    @OptionGroup var command: Command
}
