import Foundation
import Testing

/// A Markdown file of this repository.
struct Document: CustomTestStringConvertible {
    /// The path from the root folder of the repository.
    let path: String
    let text: String

    var testDescription: String { path }

    static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The documents in the root folder and the catalogues.
    static let all: [Document] = {
        let top = [
            "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md",
            "Examples/README.md",
            "swtpm/README.md",
        ]
        let pages = files(under: "Documentation").filter {
            $0.hasSuffix(".md") && !$0.contains(".docc/")
        }
        return (top + pages).compactMap(document) + articles
    }()

    /// The articles of the catalogues.
    static let articles = (files(under: "Sources") + files(under: "Documentation")).filter {
        $0.contains(".docc/") && $0.hasSuffix(".md")
    }
    .compactMap(document)

    /// The Swift blocks of documentation comments, with the file of each.
    static let comments: [(path: String, code: String)] = files(under: "Sources").filter {
        $0.hasSuffix(".swift")
    }.flatMap { path in
        (read(path) ?? "").matches(
            of: /(?m)^ *\/\/\/ ```swift\n(?<code>(?:^ *\/\/\/.*\n)+?)^ *\/\/\/ ```$/
        ).map { (path, String($0.code).replacing(/(?m)^ *\/\/\/ ?/, with: "")) }
    }

    private static func document(_ path: String) -> Document? {
        read(path).map { Document(path: path, text: $0) }
    }

    /// The Swift files that are compiled with an app's settings and access.
    static let compiled =
        (files(under: "Tests/Testing/DocumentationTests/Snippets")
        + files(under: "Examples/Sources"))
        .filter { $0.hasSuffix(".swift") }

    /// The text of a file, or nil if it does not exist.
    static func read(_ path: String) -> String? {
        try? String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// The paths of all files in a folder, from the root folder of the repository.
    static func files(under directory: String) -> [String] {
        let found = FileManager.default.enumerator(atPath: root.appending(path: directory).path)
        return (found?.compactMap { $0 as? String } ?? []).map { "\(directory)/\($0)" }.sorted()
    }

    /// The Swift blocks of the document.
    var swift: [String] {
        text.matches(of: /(?m)^```swift\n(?<code>(?s:.*?))^```$/).map { String($0.code) }
    }

    /// The test suites that the document names, such as `UserPINTests`.
    var suites: Set<String> {
        Set(text.matches(of: /`(?<name>[A-Z]\w*Tests)`/).map { String($0.name) })
    }

    /// The links to files of this repository, without fragments.
    var links: [String] {
        text.matches(of: /\]\((?<target>[^)#\s]+)[^)]*\)/).map { String($0.target) }
            .filter { !$0.contains("://") }
    }
}
