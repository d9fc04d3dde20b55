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

    /// `Comments/` has a file for each source file with blocks. It has their lines in order, and
    /// other ones for `…`.
    @Test func `every Swift block of a documentation comment is compiled`() throws {
        #expect(Document.comments.count > 10)
        for (path, code) in Document.comments {
            let name = path.split(separator: "/").last ?? ""
            let file = "Tests/Testing/DocumentationTests/Comments/\(name)"
            var rest = Self.lines(of: Document.read(file) ?? "")[...]
            for line in Self.lines(of: code) {
                guard let index = rest.firstIndex(of: line) else {
                    Issue.record("\(file) does not have the line of \(path):\n\(line)")
                    break
                }
                rest = rest[(index + 1)...]
            }
        }
    }

    /// The lines without indentation, comments at their ends and empty ones.
    private static func lines(of code: String) -> [Substring] {
        code.split(separator: "\n").map { line in
            let code = line.firstRange(of: " // ").map { line[..<$0.lowerBound] } ?? line
            return code.trimmingPrefix { $0 == " " }
        }.filter { !$0.isEmpty && $0 != "…" && !$0.hasPrefix("… //") }
    }

    /// The tests compile the ported apps with the package's access, and an app has none.
    @Test(arguments: ["AuthgearSeed", "CredentialSeed", "LockerReadme", "VaultReadme"])
    func `a ported app uses public declarations only`(name: String) async throws {
        try await Compiler().check(
            ["Tests/Apps/PortingTests/\(name).swift"], treatsWarningsAsErrors: false)
    }

    @Test(arguments: ["Certificates", "Network", "Testing"])
    func `a missing trait is an error that names it, and the README has it`(trait: String)
        async throws
    {
        let file = "Sources/Core/\(trait)Trait/\(trait)Trait.swift"
        let error = await #expect(throws: (any Error).self) {
            try await Compiler().check([file], defining: [])
        }
        let message = try #require(error.map { "\($0)" })
        #expect(message.contains("traits: [\"\(trait)\"]"))
        try await Compiler().check([file], defining: [trait])
        // Each product that the error names is in the README's table with the trait.
        let table = try #require(Document.all.first { $0.path == "README.md" }).text
            .split(separator: "\n").filter { $0.hasPrefix("|") && $0.contains("`\(trait)`") }
            .joined()
        let named = message.matches(of: /Latchkey[A-Z]\w+/).map { String($0.output) }
        #expect(!named.isEmpty)
        for product in named where !["LatchkeyOAuth"].contains(product) {
            #expect(table.contains("`\(product)`"), "\(product) without \(trait)")
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

    /// Except the first pages of the guide and the core, which link to other articles.
    @Test(arguments: Document.articles) func `every article names its tests`(_ document: Document) {
        let links = ["/Guide.md", "/Latchkey.md"].contains { document.path.hasSuffix($0) }
        #expect(links || !document.suites.isEmpty)
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
