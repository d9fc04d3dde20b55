import ArgumentParser
import LatchkeyServices

/// The check of the words that name a command, before the arguments are parsed: the parser answers
/// a mistyped command with a list of unexpected arguments.
enum CommandWords {
    /// - Throws: ``MistypedCommand`` for a word that is no command of its group, with the nearest
    ///   command.
    static func check(_ arguments: [String]) throws {
        // ArgumentParser's own requests, such as the values of a completion.
        guard arguments.first?.hasPrefix("---") != true else { return }
        var command: any ParsableCommand.Type = LatchkeyTool.self
        var words = [command._commandName]
        for argument in named(in: arguments) {
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty else { return }
            if argument == "help", words.count == 1 { continue }
            guard let next = subcommands.first(where: { $0._commandName == argument }) else {
                let group = words.joined(separator: " ")
                let question = suggestion(for: argument, in: command, group) ?? ""
                throw MistypedCommand(
                    "‘\(argument)’ is not a command of ‘\(group)’.\(question)", group: group,
                    usage: LatchkeyTool.usageString(for: command))
            }
            command = next
            words.append(argument)
        }
    }

    /// The question with the nearest command of the group; at the root, otherwise with those of the
    /// groups that have it.
    private static func suggestion(
        for word: String, in command: any ParsableCommand.Type, _ group: String
    ) -> String? {
        func names(_ command: any ParsableCommand.Type) -> [String] {
            command.configuration.subcommands.map { $0._commandName }
        }
        if let near = Spelling.nearest(to: word, among: names(command)) {
            return " Did you mean ‘\(group) \(near)’?"
        }
        let groups = command.configuration.subcommands.filter { !names($0).isEmpty }
        guard let near = Spelling.nearest(to: word, among: groups.flatMap(names)) else {
            return nil
        }
        let places = groups.filter { names($0).contains(near) }.map {
            "‘\(group) \($0._commandName) \(near)’"
        }
        return places.count == 1
            ? " Did you mean \(places[0])?"
            : " Did you mean one of \(places.joined(separator: ", "))?"
    }

    /// The arguments that are neither options nor their values.
    private static func named(in arguments: [String]) -> [String] {
        var names: [String] = []
        var isValue = false
        for argument in arguments {
            if argument.hasPrefix("-") {
                isValue =
                    argument.hasPrefix("--") && !argument.contains("=") && !flags.contains(argument)
            } else if isValue {
                isValue = false
            } else {
                names.append(argument)
            }
        }
        return names
    }

    /// The options before a command that have no value.
    private static let flags: Set = [
        "--json", "--quiet", "--verbose", "--allow-short-pin", "--help", "--help-hidden",
        "--version", "--experimental-dump-help",
    ]
}
