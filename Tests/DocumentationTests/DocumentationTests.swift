import Foundation
import Testing

/// What the documentation says, as far as a program can tell.
@Suite struct DocumentationTests {
    @Test func `there is documentation`() {
        #expect(Document.all.count > 25)
        #expect(Document.all.flatMap(\.swift).count > 25)
    }

    /// A block that changes here is to be changed there: in `Snippets/`, or in `Examples/` where it is a whole program.
    @Test(arguments: Document.all) func `every Swift block is compiled`(_ document: Document) {
        let sources = Document.compiled.compactMap(Document.read)
        for block in document.swift {
            #expect(sources.contains(block), "no file of Snippets/ or Examples/ is this block:\n\(block)")
        }
    }

    @Test(arguments: Document.compiled.filter { $0.contains("/Snippets/") })
    func `every snippet is shown somewhere`(_ path: String) throws {
        let snippet = try #require(Document.read(path))
        let steps = Tutorial.all.flatMap(\.steps).compactMap { Document.read($0.path) }
        #expect(Document.all.contains { $0.swift.contains(snippet) } || steps.contains(snippet))
    }

    @Test(arguments: Document.all) func `every test that is named is there`(_ document: Document) {
        let names = Set(
            Document.files(under: "Tests").compactMap { path -> [String]? in
                guard path.hasSuffix("Tests.swift") else { return nil }
                // The suite, and the target that it is in.
                let parts = path.split(separator: "/").map(String.init)
                return [parts[1], String(parts[parts.count - 1].dropLast(".swift".count))]
            }.joined())
        for suite in document.suites where !names.contains(suite) {
            Issue.record("\(document.path) names \(suite), and there is no such suite")
        }
    }

    /// What the core's own page and the examples' say is shown by what they lead to.
    @Test(arguments: Document.articles) func `every article names what shows its promises`(_ document: Document) {
        #expect(!document.suites.isEmpty || document.path.hasSuffix("/Latchkey.md"))
    }

    @Test(arguments: Document.all) func `every link leads somewhere`(_ document: Document) {
        let folder = URL(filePath: "/\(document.path)").deletingLastPathComponent().path
        for link in document.links {
            let path = URL(filePath: "\(folder)/\(link)").standardized.path
            #expect(
                FileManager.default.fileExists(atPath: Document.root.appending(path: path).path),
                "\(document.path) links to \(link)")
        }
    }
}
