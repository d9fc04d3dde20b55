import FoundationEssentials
import Glibc
import LatchkeySimulators
import Testing

/// Commands that root runs for itself in the place of another user, as with `sudo -E`.
@Suite(.enabled(if: geteuid() == 0, "needs root"), .timeLimit(.minutes(15)))
struct RootFilesTests {
    private static let other: uid_t = 65_534

    /// A machine whose home belongs to another user.
    private func machine() throws -> Machine {
        let machine = try Machine(tcti: nil)
        for place in [machine.directory.path, machine.directory.path(of: "data")] {
            try #require(chown(place, Self.other, Self.other) == 0)
        }
        return machine
    }

    @Test func `root creates nothing below the directory of another user`() async throws {
        let machine = try machine()
        for command in [
            ["ssh", "install", "--write", "--host", "a"], ["config", "set", "container", "x"],
            ["key", "create", "--policy", "none"], ["vault", "store", "a"], ["doctor"],
            ["key", "create", "--policy", "none", "--store", machine.directory.path(of: "a/b")],
        ] {
            let refused = try await machine.run(command, input: "secret")
            #expect(refused.status == 7, "\(command): \(refused)")
            let text = refused.output + refused.errors
            #expect(text.contains("belongs to another user"), "\(command): \(text)")
            #expect(text.contains("without sudo"), "\(command): \(text)")
        }
        let found = try FileManager.default.subpathsOfDirectory(atPath: machine.directory.path)
        #expect(found == ["data"])
    }

    @Test func `root does not take the configuration file of ssh from another user`() async throws {
        let machine = try machine()
        let file = machine.directory.path(of: ".ssh/config")
        try FileManager.default.createDirectory(
            atPath: machine.directory.path(of: ".ssh"), withIntermediateDirectories: false)
        let text = "# latchkey-agent\nHost *\n    IdentityAgent /a/latchkey/ssh-agent.sock\n"
        try Data(text.utf8).write(to: URL(filePath: file))
        try #require(chown(file, Self.other, Self.other) == 0)
        for command in [["--remove"], ["--write", "--host", "b"]] {
            let refused = try await machine.run(["ssh", "install"] + command)
            #expect(refused.status == 7, "\(refused)")
        }
        var status = stat()
        #expect(stat(file, &status) == 0 && status.st_uid == Self.other)
        #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
    }

    /// The target is root's, and so can be all directories.
    @Test(arguments: [true, false])
    func `root changes no file through another user's symbolic link`(isHomeOfUser: Bool)
        async throws
    {
        let machine = isHomeOfUser ? try machine() : try Machine(tcti: nil)
        let outside = try TemporaryDirectory()
        let (target, link) = (
            outside.path(of: "target"), machine.directory.path(of: ".ssh/config")
        )
        let text = "# latchkey-agent\nHost *\n    IdentityAgent /a/latchkey/ssh-agent.sock\n"
        try Data(text.utf8).write(to: URL(filePath: target))
        try FileManager.default.createDirectory(
            atPath: machine.directory.path(of: ".ssh"), withIntermediateDirectories: false)
        try #require(symlink(target, link) == 0)
        try #require(lchown(link, Self.other, Self.other) == 0)
        for command in [["--write", "--host", "b"], ["--remove"]] {
            let refused = try await machine.run(["ssh", "install"] + command)
            #expect(refused.status == 7, "\(command): \(refused)")
            let place = isHomeOfUser ? machine.directory.path : link
            #expect(refused.errors.contains("\(place) belongs to another user"), "\(refused)")
        }
        #expect(try String(contentsOfFile: target, encoding: .utf8) == text)
    }

    @Test func `no advice says to remove the home of another user`() async throws {
        let machine = try machine()
        let folder = machine.directory.path(of: "config/latchkey")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data("{}".utf8).write(to: URL(filePath: "\(folder)/config.json"))
        let refused = try await machine.run("config", "list")
        #expect(refused.status == 2, "\(refused)")
        #expect(refused.errors.contains("\(machine.directory.path) belongs to another user"))
        #expect(refused.errors.contains("without sudo"), "\(refused.errors)")
        #expect(refused.errors.contains("or use a directory of root"), "\(refused.errors)")
        #expect(!refused.errors.contains("Remove"), "\(refused.errors)")
    }

    @Test func `under sudo, root's own files are named once`() async throws {
        let machine = try Machine(tcti: nil)
        for command in [
            ["key", "list"], ["ssh", "list"], ["ssh", "install", "--write"],
            ["config", "set", "container", "default"],
        ] {
            let own = try await machine.run(command)
            #expect(own.status == 0 && own.errors.isEmpty, "\(own)")
            let sudo = try await machine.run(command, extra: ["SUDO_USER": "ada"])
            #expect(sudo.status == 0, "\(sudo)")
            #expect(sudo.errors.ranges(of: "not those of ‘ada’").count == 1, "\(sudo.errors)")
        }
    }
}
