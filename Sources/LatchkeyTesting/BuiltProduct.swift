internal import Foundation
internal import Testing

/// A program or library of this package, beside the tests that run.
enum BuiltProduct {
    static func path(of name: String) throws -> String {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let beside = [CommandLine.arguments.first ?? tests, tests].map {
            URL(filePath: $0).deletingLastPathComponent().appending(path: name).path()
        }
        return try #require(beside.first { FileManager.default.fileExists(atPath: $0) }, "\(name) is not built")
    }
}
