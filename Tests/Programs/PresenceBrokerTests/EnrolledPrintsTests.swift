import Foundation
import LatchkeySimulators
import Testing

@testable import latchkey_presenced

/// The digest of the enrolled fingers.
struct EnrolledPrintsTests {
    private func write(_ text: String, to path: String) throws {
        try FileManager.default.createDirectory(
            atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        try Data(text.utf8).write(to: URL(filePath: path))
    }

    @Test func `each change gives another digest`() throws {
        let directory = try TemporaryDirectory()
        let prints = EnrolledPrints(directory: directory.path)
        let file = directory.path(of: "alice/driver/0/7")
        var digests: [Data] = []
        #expect(prints.digest(of: "alice") == nil, "there are none")
        try write("a print", to: file)
        digests.append(try #require(prints.digest(of: "alice")))
        #expect(prints.digest(of: "alice") == digests.last, "nothing changed")
        try write("another", to: file)
        digests.append(try #require(prints.digest(of: "alice")))
        try FileManager.default.removeItem(atPath: file)
        try write("another", to: file)
        digests.append(try #require(prints.digest(of: "alice")))
        try write("another", to: directory.path(of: "alice/driver/0/8"))
        digests.append(try #require(prints.digest(of: "alice")))
        try FileManager.default.moveItem(
            atPath: file, toPath: directory.path(of: "alice/driver/0/9"))
        digests.append(try #require(prints.digest(of: "alice")))
        #expect(Set(digests).count == digests.count)
        try write("a print of another user", to: directory.path(of: "bob/driver/0/7"))
        #expect(prints.digest(of: "alice") == digests.last)
    }

    @Test func `an unreadable directory has no digest`() throws {
        #expect(EnrolledPrints(directory: "/nowhere").digest(of: "alice") == nil)
        let directory = try TemporaryDirectory()
        for name in ["", ".", "..", "../alice", "a/b"] {
            #expect(EnrolledPrints(directory: directory.path).digest(of: name) == nil, "\(name)")
        }
    }
}
