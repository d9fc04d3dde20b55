import ArgumentParser

/// The check of the words that name a command, before the arguments are parsed: the parser answers
/// a mistyped command with a list of unexpected arguments.
enum CommandWords {
    /// - Throws: `ValidationError` for a word that is no command of its group, with the nearest
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
                let near = nearest(to: argument, among: subcommands.map { $0._commandName })
                let question = near.map { " Did you mean ‘\(group) \($0)’?" } ?? ""
                throw ValidationError("‘\(argument)’ is not a command of ‘\(group)’.\(question)")
            }
            command = next
            words.append(argument)
        }
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

    /// The command that the word abbreviates, or the nearest one; nil if none is near.
    static func nearest(to word: String, among commands: [String]) -> String? {
        if word.count > 1, let longer = commands.first(where: { $0.hasPrefix(word) }) {
            return longer
        }
        let limit = max(1, word.count / 3)
        let distances = commands.map { ($0, distance(Array(word), Array($0))) }
        return distances.filter { $0.1 <= limit }.min { $0.1 < $1.1 }?.0
    }

    /// The number of inserted, deleted, replaced and exchanged characters between two words.
    private static func distance(_ one: [Character], _ other: [Character]) -> Int {
        var rows = [Array(0...other.count)]
        for i in one.indices {
            var row = [i + 1]
            for j in other.indices {
                let replaced = rows[i][j] + (one[i] == other[j] ? 0 : 1)
                var least = min(rows[i][j + 1] + 1, row[j] + 1, replaced)
                if i > 0, j > 0, one[i] == other[j - 1], one[i - 1] == other[j] {
                    least = min(least, rows[i - 1][j - 1] + 1)
                }
                row.append(least)
            }
            rows.append(row)
        }
        return rows[one.count][other.count]
    }
}
