import Foundation
import Testing

/// Runs each parser on its corpus, which contains the findings of the fuzzers. It uses no sanitizer
/// and takes seconds.
struct FuzzCorpusTests {
    private static let corpus = URL(filePath: #filePath).deletingLastPathComponent().appending(
        path: "Corpus")

    @Test(arguments: FuzzTarget.all.map(\.name))
    func `every input of the corpus is read or refused`(_ name: String) async throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let inputs = try Self.inputs(of: name)
        #expect(!inputs.isEmpty, "the corpus has inputs for \(name)")
        for (file, input) in inputs {
            await #expect(throws: Never.self, "\(file)") { try await Self.run(target, input) }
        }
    }

    @Test func `the corpus has no inputs for parsers that don't exist`() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.corpus.path)
        #expect(
            names.filter { !$0.hasSuffix(".md") }.sorted() == FuzzTarget.all.map(\.name).sorted())
    }

    @Test func `the messages of the corpus come through the bus`() async throws {
        let messages = try Self.inputs(of: "bus-messages")
        #expect(messages.contains { !HostileBus.arguments(of: $0.input).isEmpty })
    }

    /// Runs on its own thread, since a target may block.
    private static func run(_ target: FuzzTarget, _ input: [UInt8]) async throws {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(with: Result { try target.run(input) })
            }
        }
    }

    private static func inputs(of target: String) throws -> [(file: String, input: [UInt8])] {
        let directory = corpus.appending(path: target)
        return try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted().map {
            file in
            (file, Array(try Data(contentsOf: directory.appending(path: file))))
        }
    }
}
