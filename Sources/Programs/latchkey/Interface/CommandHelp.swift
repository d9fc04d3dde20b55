import ArgumentParser

/// The help texts, with the examples, and with the global options only in the help of the tool.
enum CommandHelp {
    /// - Parameter text: The text of ArgumentParser, which has the global options in each help,
    ///   before the command's own.
    static func complete(_ text: String) -> String {
        let heading = "\n\(GlobalOptions.title.uppercased()):\n"
        guard let start = text.firstRange(of: heading)?.lowerBound,
            let end = text[start...].dropFirst().firstRange(of: "\n\n")?.lowerBound
        else { return text }
        let options = text[start...end]
        let rest = text[..<start] + text[end...].dropFirst()
        let hint = rest.firstRange(of: "\n  See 'latchkey help")?.lowerBound ?? rest.endIndex
        let command = words(in: text)
        guard command != LatchkeyTool._commandName else {
            return String(rest[..<hint] + options + rest[hint...])
        }
        let isGroup = text.contains("\nSUBCOMMANDS:\n")
        let examples = isGroup ? "" : Examples.of(command).map { "\n  $ \($0)" }.joined()
        let section = examples.isEmpty ? "" : "\nEXAMPLES:\(examples)\n"
        return String(rest[..<hint]) + section + String(rest[hint...])
            + "\nGlobal options: latchkey --help\n"
    }

    /// The words of the command in a usage line, such as `latchkey key sign`.
    private static func words(in help: String) -> String {
        let usage = help.firstRange(of: "USAGE: ").map { help[$0.upperBound...] } ?? ""
        let line = usage.prefix { $0 != "\n" }
        return line.split(separator: " ").prefix { $0.first?.isLetter == true }
            .joined(separator: " ")
    }
}
