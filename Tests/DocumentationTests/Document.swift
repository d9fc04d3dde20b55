import Foundation
import Testing

/// A Markdown file of this repository.
struct Document: CustomTestStringConvertible {
    /// From the repository's root.
    let path: String
    let text: String

    var testDescription: String { path }

    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// All that people read: at the top, and in the catalogues.
    static let all: [Document] = {
        let top = [
            "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md", "Examples/README.md",
            "swtpm/README.md",
        ]
        return top.compactMap(document) + articles
    }()

    /// Those of the catalogues.
    static let articles = files(under: "Sources").filter { $0.contains(".docc/") && $0.hasSuffix(".md") }
        .compactMap(document)

    private static func document(_ path: String) -> Document? {
        read(path).map { Document(path: path, text: $0) }
    }

    /// The Swift that is compiled with an app's settings, and with no more access than an app has.
    static let compiled =
        (files(under: "Tests/DocumentationTests/Snippets") + files(under: "Examples/Sources"))
        .filter { $0.hasSuffix(".swift") }

    /// The text of a file, or nil without one.
    static func read(_ path: String) -> String? {
        try? String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// The paths of all files in a directory, from the repository's root.
    static func files(under directory: String) -> [String] {
        let found = FileManager.default.enumerator(atPath: root.appending(path: directory).path)
        return (found?.compactMap { $0 as? String } ?? []).map { "\(directory)/\($0)" }.sorted()
    }

    /// The Swift that it shows, block by block.
    var swift: [String] {
        text.matches(of: /(?m)^```swift\n(?<code>(?s:.*?))^```$/).map { String($0.code) }
    }

    /// The suites that it names as what shows something: `UserPINTests`.
    var suites: Set<String> {
        Set(text.matches(of: /`(?<name>[A-Z]\w*Tests)`/).map { String($0.name) })
    }

    /// What it links to in this repository, without what comes after `#`.
    var links: [String] {
        text.matches(of: /\]\((?<target>[^)#\s]+)[^)]*\)/).map { String($0.target) }
            .filter { !$0.contains("://") }
    }
}
