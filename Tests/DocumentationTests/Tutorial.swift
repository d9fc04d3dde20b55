import Foundation
import Testing

/// A tutorial of a catalogue, as its reader follows it.
struct Tutorial: CustomTestStringConvertible {
    /// A step's code: what the reader calls the file, and where its text is.
    struct Code: Hashable {
        let name: String
        let path: String
    }

    /// From the repository's root.
    let path: String
    let steps: [Code]

    var testDescription: String { path }

    static let all: [Tutorial] = Document.files(under: "Sources").filter { $0.hasSuffix(".tutorial") }
        .compactMap { path in
            guard let text = Document.read(path) else { return nil }
            let folder = path.split(separator: "/").dropLast().joined(separator: "/")
            let steps = text.matches(of: /@Code\(name: "(?<name>[^"]+)", file: "(?<file>[^"]+)"\)/).map {
                Code(name: String($0.name), path: "\(folder)/Code/\($0.file)")
            }
            return Tutorial(path: path, steps: steps)
        }

    /// The files that the reader has after each step.
    var stages: [[Code]] {
        var files: [String: Code] = [:]
        return steps.map { step in
            files[step.name] = step
            return files.values.sorted { $0.name < $1.name }
        }
    }
}
