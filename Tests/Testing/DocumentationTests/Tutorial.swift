import Foundation
import Testing

/// A tutorial of a catalogue with its steps.
struct Tutorial: CustomTestStringConvertible {
    /// A step's code: the file name in the tutorial and the path of the text.
    struct Code: Hashable {
        let name: String
        let path: String
    }

    /// The path from the root folder of the repository.
    let path: String
    let steps: [Code]

    var testDescription: String { path }

    static let all: [Tutorial] = Document.files(under: "Documentation").filter {
        $0.hasSuffix(".tutorial")
    }
    .compactMap { path in
        guard let text = Document.read(path) else { return nil }
        let folder = path.split(separator: "/").dropLast().joined(separator: "/")
        let steps = text.matches(of: /@Code\(name: "(?<name>[^"]+)", file: "(?<file>[^"]+)"\)/).map
        {
            Code(name: String($0.name), path: "\(folder)/Code/\($0.file)")
        }
        return Tutorial(path: path, steps: steps)
    }

    /// The reader's files after each step.
    var stages: [[Code]] {
        var files: [String: Code] = [:]
        return steps.map { step in
            files[step.name] = step
            return files.values.sorted { $0.name < $1.name }
        }
    }
}
