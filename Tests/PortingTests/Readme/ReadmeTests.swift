import Foundation
import Testing

@Suite struct `The README` {
    @Test(arguments: ["Login", "VaultAndCredentials", "Locker"])
    func `shows Swift that compiles`(_ name: String) throws {
        let here = URL(filePath: #filePath).deletingLastPathComponent()
        let source = try String(contentsOf: here.appending(path: "\(name)Snippet.swift"), encoding: .utf8)
        let readme = try String(contentsOf: here.appending(path: "../../../README.md"), encoding: .utf8)
        let code = source.drop { $0 != "\n" }
        #expect(readme.contains("```swift\(code)```"))
    }
}
