import Foundation
import Testing

/// Tests of the tables that map the declarations of iOS libraries. The calls of their second columns
/// are in a file of `Porting/`, which this target compiles: it has no package access.
@Suite struct PortingTableTests {
    /// The libraries, with the catalogue of each article and the least number of its rows.
    static let libraries = [
        ("Authgear", "LatchkeyLogin", 60), ("AuthFoundation", "LatchkeyCredentials", 80),
        ("BiometricsVault", "LatchkeyVault", 35), ("Locker", "LatchkeyLocker", 20),
    ]

    @Test(arguments: libraries) func `the second column is compiled`(
        library: String, product: String, count: Int
    ) throws {
        let article = "Sources/Apps/\(product)/\(product).docc/PortingFrom\(library).md"
        let rows = Row.all(in: try #require(Document.read(article)))
        #expect(rows.count >= count)
        let code = Code(
            try #require(
                Document.read("Tests/Testing/DocumentationTests/Porting/\(library).swift")))
        for row in rows {
            if row.counterpart == "—" {
                #expect(row.difference.hasPrefix("not ported: "), "\(row.declaration): why?")
                continue
            }
            let calls =
                row.counterpart.hasPrefix("the same")
                ? Row.calls(in: row.declaration).map(Code.withoutLabels)
                    + Row.calls(in: row.counterpart)
                : Row.calls(in: row.counterpart)
            #expect(!calls.isEmpty, "\(row.declaration) has no call")
            for call in calls where !code.has(call) {
                Issue.record("Porting/\(library).swift does not use \(call) of \(row.declaration)")
            }
        }
    }

    @Test(arguments: libraries) func `each declaration has one row`(
        library: String, product: String, count: Int
    ) throws {
        let article = "Sources/Apps/\(product)/\(product).docc/PortingFrom\(library).md"
        let names = Row.all(in: try #require(Document.read(article))).flatMap(\.declarations)
        #expect(names.count >= count)
        let repeated = Dictionary(grouping: names) { $0 }.filter { $0.value.count > 1 }.keys
        #expect(repeated.isEmpty)
    }

    @Test(arguments: [
        ("send(_:to:)", "client.send(request, to: host)", true),
        ("send(_:to:)", "client.send(request, by: host)", false),
        ("send(_:to:)", "client.send(request).answer(to: host)", false),
        ("Client.send(_:)", "client.send(request)", true),
        ("Client.send(_:)", "client.sendAll(request)", false),
        ("Request", "let request: Request?", true), ("Request", "let request: URLRequest", false),
        ("Request", "let url = \"https://id.example\" // Request", false),
        ("Request", "let url = \"https://id.example\", body: Request?", true),
    ])
    func `a call is found by its name and labels`(call: String, line: String, isFound: Bool) {
        #expect(Code(line).has(call) == isFound)
    }
}

/// A row of an article's tables.
private struct Row {
    let declaration: String
    let counterpart: String
    let difference: String

    /// The rows of the tables whose last column is “what differs”.
    static func all(in article: String) -> [Row] {
        var isInTable = false
        return article.split(separator: "\n", omittingEmptySubsequences: false).compactMap { line in
            guard line.hasPrefix("| ") else {
                if line.isEmpty { isInTable = false }
                return nil
            }
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            if cells.last == "what differs" { isInTable = true }
            guard isInTable, cells.count >= 2, cells.last != "what differs" else { return nil }
            return Row(
                declaration: cells[0], counterpart: cells[1],
                difference: cells.count > 2 ? cells[2] : "")
        }
    }

    /// The code in a cell.
    static func calls(in cell: String) -> [String] {
        cell.matches(of: /`(?<call>[^`]+)`/).map { String($0.call) }
    }

    /// The names with their types. `.name` belongs to the type before it. “the members of `Type`” are
    /// described together.
    var declarations: [String] {
        if declaration.hasPrefix("the ") { return [] }
        var type = ""
        return Self.calls(in: declaration).map { call in
            if call.hasPrefix(".") { return type + call }
            let path = Code.withoutLabels(call).split(separator: ".")
            let isType = path.last?.first?.isUppercase == true && !call.contains("(")
            type = (isType ? path : path.dropLast()).joined(separator: ".")
            return call
        }
    }
}

/// The code of an app.
private struct Code {
    private let text: String

    init(_ text: String) {
        self.text = text.replacing(/(?m)(^| )\/\/.*$/, with: "")
    }

    static func withoutLabels(_ call: String) -> String {
        call.replacing(/\(.*\)$/, with: "")
    }

    /// Whether the code has the name of a call, and with it all labels that the call has.
    func has(_ call: String) -> Bool {
        let name = Self.withoutLabels(call).split(separator: ".").last ?? ""
        let labels = call.matches(of: /(?<label>\w+):/).map(\.label).filter { $0 != "_" }
        return text.ranges(of: name).contains { range in
            guard !isPart(text[..<range.lowerBound].last), !isPart(text[range.upperBound...].first)
            else { return false }
            let arguments = arguments(from: range.upperBound)
            return labels.allSatisfy { arguments.contains("\($0):") }
        }
    }

    private func isPart(_ character: Character?) -> Bool {
        character.map { $0.isLetter || $0.isNumber || $0 == "_" } ?? false
    }

    /// The arguments of a call whose name ends at an index; empty without parentheses.
    private func arguments(from start: String.Index) -> Substring {
        let rest = text[start...]
        guard rest.first == "(" else { return "" }
        var depth = 0
        let end = rest.firstIndex { character in
            if character == "(" { depth += 1 }
            if character == ")" { depth -= 1 }
            return depth == 0
        }
        return end.map { rest[...$0] } ?? ""
    }
}
