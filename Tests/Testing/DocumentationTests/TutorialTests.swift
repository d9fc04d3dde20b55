import Foundation
import Testing

@Suite struct TutorialTests {
    @Test func `there are tutorials`() {
        #expect(Tutorial.all.filter { !$0.steps.isEmpty }.count >= 3)
    }

    @Test(.timeLimit(.minutes(15)), arguments: Tutorial.all)
    func `the code after each step compiles`(_ tutorial: Tutorial) async throws {
        let compiler = try Compiler()
        for stage in tutorial.stages { try await compiler.check(stage.map(\.path)) }
    }

    @Test func `a compiler error fails the check`() async throws {
        await #expect(throws: (any Error).self) {
            // The program without its notebook.
            try await Compiler().check(["Examples/Sources/notes/Notes.swift"])
        }
    }

    /// So the tests run it, too: `TerminalTests` runs the programs.
    @Test(arguments: Tutorial.all) func `the final code is a program of this package`(
        _ tutorial: Tutorial
    ) throws {
        let compiled = Document.compiled.compactMap(Document.read)
        for code in tutorial.stages.last ?? [] {
            #expect(compiled.contains(try #require(Document.read(code.path))), "\(code.path)")
        }
    }
}
