import Foundation
import LatchkeyTestSupport
import SystemPackage

/// The commands and options in `Golden/commands.txt`.
struct RecordedCommands {
    private var options: [String: Set<Substring>] = [:]

    init() throws {
        let path = FilePath(#filePath).removingLastComponent().removingLastComponent()
            .appending("Golden/commands.txt")
        var command = ""
        for line in try String(contentsOfFile: path.string, encoding: .utf8).split(separator: "\n")
        {
            if line.hasPrefix(" ") {
                options[command, default: []].formUnion(
                    line.split(separator: " ").filter { $0.hasPrefix("-") })
            } else {
                command = String(line)
                options[command] = []
            }
        }
    }

    /// The first word that is no command of its group, or no option of its command; nil if there is
    /// none. A word with an interpolation is not checked.
    func fault(of words: Substring) -> Substring? {
        var command = "latchkey"
        for word in words.split(separator: " ") {
            if word.hasPrefix("--") {
                let option = word.prefix { $0 != "=" }
                let known = [command, "every command"].compactMap { options[$0] }
                guard known.contains(where: { $0.contains(option) }) else { return word }
            } else if options["\(command) \(word)"] != nil {
                command += " \(word)"
            } else {
                let isGroup = options.keys.contains { $0.hasPrefix("\(command) ") }
                return isGroup && !word.contains("\\(") ? word : nil
            }
        }
        return nil
    }
}

/// The code of the package, without comments.
enum SourceLines {
    /// The lines of all Swift files in `Sources`, with the file and number of each.
    static func all() throws -> [(place: String, line: String)] {
        let root = BuiltProduct.packageFolder.appending(path: "Sources")
        let files = FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil)
        var lines: [(String, String)] = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let text = try String(contentsOf: file, encoding: .utf8)
            for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false)
                .enumerated()
            where !line.drop(while: { $0 == " " }).hasPrefix("//") {
                lines.append(("\(file.lastPathComponent):\(index + 1)", String(line)))
            }
        }
        return lines
    }
}
