import Foundation
import Testing

/// Tests of the documentation's code, links and references.
@Suite struct DocumentationTests {
    @Test func `there is documentation`() {
        #expect(Document.all.count > 25)
        #expect(Document.all.flatMap(\.swift).count > 25)
    }

    /// When a block changes, change the same code in `Snippets/` or, for whole programs, in
    /// `Examples/`.
    @Test(arguments: Document.all) func `every Swift block is compiled`(_ document: Document) {
        let sources = Document.compiled.compactMap(Document.read)
        for block in document.swift {
            #expect(
                sources.contains(block),
                "no file of Snippets/ or Examples/ is this block:\n\(block)")
        }
    }

    @Test(arguments: Document.compiled.filter { $0.contains("/Snippets/") })
    func `every snippet is in a document`(_ path: String) throws {
        let snippet = try #require(Document.read(path))
        let steps = Tutorial.all.flatMap(\.steps).compactMap { Document.read($0.path) }
        #expect(Document.all.contains { $0.swift.contains(snippet) } || steps.contains(snippet))
    }

    @Test(arguments: Document.all) func `every named test suite exists`(_ document: Document) {
        let names = Set(
            Document.files(under: "Tests").compactMap { path -> [String]? in
                guard path.hasSuffix("Tests.swift") else { return nil }
                // The suite and its target.
                let parts = path.split(separator: "/").map(String.init)
                return [parts[2], String(parts[parts.count - 1].dropLast(".swift".count))]
            }.joined())
        for suite in document.suites where !names.contains(suite) {
            Issue.record("\(document.path) names \(suite), which does not exist")
        }
    }

    /// Except the core's page and that of the examples, which link to other articles.
    @Test(arguments: Document.articles) func `every article names its tests`(_ document: Document) {
        #expect(!document.suites.isEmpty || document.path.hasSuffix("/Latchkey.md"))
    }

    @Test(arguments: Document.all) func `every link has a target`(_ document: Document) {
        let folder = URL(filePath: "/\(document.path)").deletingLastPathComponent().path
        for link in document.links {
            let path = URL(filePath: "\(folder)/\(link)").standardized.path
            #expect(
                FileManager.default.fileExists(atPath: Document.root.appending(path: path).path),
                "\(document.path) links to \(link)")
        }
    }
}
