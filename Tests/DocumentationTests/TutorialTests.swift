import Foundation
import Testing

@Suite struct TutorialTests {
    @Test func `there are tutorials`() {
        #expect(Tutorial.all.filter { !$0.steps.isEmpty }.count >= 3)
    }

    @Test(.timeLimit(.minutes(5)), arguments: Tutorial.all)
    func `what a reader has after each step compiles`(_ tutorial: Tutorial) async throws {
        let compiler = try Compiler()
        for stage in tutorial.stages { try await compiler.check(stage.map(\.path)) }
    }

    @Test func `a step that does not compile is noticed`() async throws {
        await #expect(throws: (any Error).self) {
            // The notebook without the file that it needs.
            try await Compiler().check(["Examples/Sources/notes/Notebook.swift"])
        }
    }

    /// So it is run by a test, too: the programs by `TerminalTests`, the tests by themselves.
    @Test(arguments: Tutorial.all) func `what a reader has at the end is a program of this package`(
        _ tutorial: Tutorial
    ) throws {
        let compiled = Document.compiled.compactMap(Document.read)
        for code in tutorial.stages.last ?? [] {
            #expect(compiled.contains(try #require(Document.read(code.path))), "\(code.path)")
        }
    }
}
