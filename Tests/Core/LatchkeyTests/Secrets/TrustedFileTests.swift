import FoundationEssentials
import Glibc
import Latchkey
import LatchkeySimulators
import Testing

/// Files that other users could change or replace.
struct TrustedFileTests {
    private static let isRoot = geteuid() == 0
    private static let nobody: uid_t = 65_534

    /// A file below three directories, all of this user.
    private func tree(_ body: (_ file: String, _ directories: [String]) throws -> Void) throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let directories = ["a", "a/b", "a/b/c"].map { directory.path(of: $0) }
        for path in directories { try #require(mkdir(path, 0o755) == 0) }
        let file = directories[2] + "/file"
        try Data("text".utf8).write(to: URL(filePath: file))
        try #require(chmod(file, 0o644) == 0)
        try TrustedFile.check(file)
        try body(file, directories)
    }

    private func expectRefusal(_ path: String, of place: String, _ words: String) {
        let error = #expect(throws: KeystoreError.self) { try TrustedFile.check(path) }
        #expect(error?.code == .invalidInput)
        #expect(error?.reason.contains(words) == true, "\(error?.reason ?? "")")
        #expect(error?.reason.contains(place) == true, "\(error?.reason ?? "")")
    }

    @Test(arguments: [0o666, 0o664, 0o646, 0o777, 0o1666] as [mode_t])
    func `a file that other users can write is refused`(mode: mode_t) throws {
        try tree { file, _ in
            try #require(chmod(file, mode) == 0)
            expectRefusal(file, of: file, "other users can write")
        }
    }

    @Test(arguments: [0o777, 0o775, 0o757] as [mode_t])
    func `a directory on the way that other users can write is refused`(mode: mode_t) throws {
        try tree { file, directories in
            for directory in directories {
                try #require(chmod(directory, mode) == 0)
                expectRefusal(file, of: directory, "other users can write")
                try #require(chmod(directory, 0o755) == 0)
            }
            try TrustedFile.check(file)
        }
    }

    /// In a directory with the sticky bit, other users can create files, but not replace this
    /// user's.
    @Test func `a shared directory is accepted, but not as the file's own`() throws {
        try tree { file, directories in
            for directory in directories.dropLast() {
                try #require(chmod(directory, 0o1777) == 0)
            }
            try TrustedFile.check(file)
            try TrustedFile.check(directories[2])
            try #require(chmod(directories[2], 0o1777) == 0)
            expectRefusal(file, of: directories[2], "other users can write")
            expectRefusal(directories[2], of: directories[2], "other users can write")
            expectRefusal(directories[2] + "/x/..", of: "x", "No such file")
            expectRefusal(directories[1] + "/c/../c/./file", of: directories[2], "other users")
        }
    }

    @Test(.enabled(if: isRoot, "giving a file away takes root"))
    func `another user's file or directory is refused`() throws {
        try tree { file, directories in
            for place in directories + [file] {
                try #require(chown(place, Self.nobody, Self.nobody) == 0)
                expectRefusal(file, of: place, "belongs to another user")
                try #require(chown(place, 0, 0) == 0)
            }
            // Another user's symbolic link in a shared directory.
            try #require(chmod(directories[0], 0o1777) == 0)
            let link = directories[0] + "/link"
            try #require(symlink(directories[1], link) == 0)
            try TrustedFile.check(link + "/c/file")
            try #require(lchown(link, Self.nobody, Self.nobody) == 0)
            expectRefusal(link + "/c/file", of: link, "belongs to another user")
        }
    }

    @Test(.enabled(if: isRoot, "giving a file away takes root"))
    func `a file of root alone has no part of another owner, also not of this user`() throws {
        try tree { file, directories in
            try TrustedFile.check(file, owner: .root)
            #expect(try TrustedFile.contents(of: file, owner: .root) == Data("text".utf8))
            for place in directories + [file] {
                try #require(chown(place, Self.nobody, Self.nobody) == 0)
                let error = #expect(throws: KeystoreError.self) {
                    try TrustedFile.contents(of: file, owner: .root)
                }
                #expect(error?.reason == "\(place) does not belong to root")
                try #require(chown(place, 0, 0) == 0)
            }
        }
    }

    @Test func `the directories of each symbolic link are checked`() throws {
        try tree { file, directories in
            let directory = try TemporaryDirectory()
            defer { withExtendedLifetime(directory) {} }
            // outer → middle/link → file
            let middle = directory.path(of: "middle")
            try #require(mkdir(middle, 0o755) == 0)
            try #require(symlink(file, middle + "/link") == 0)
            let outer = directory.path(of: "outer")
            try #require(symlink("middle/./../middle/link", outer) == 0)
            try TrustedFile.check(outer)
            #expect(try TrustedFile.contents(of: outer) == Data("text".utf8))
            for place in [middle, directories[1]] {
                try #require(chmod(place, 0o777) == 0)
                expectRefusal(outer, of: place, "other users can write")
                try #require(chmod(place, 0o755) == 0)
            }
            let loop = directory.path(of: "loop")
            try #require(symlink(loop, loop) == 0)
            expectRefusal(loop, of: loop, "Too many levels of symbolic links")
        }
    }

    @Test func `only a regular file is read`() throws {
        try tree { _, directories in
            let fifo = directories[2] + "/fifo"
            try #require(mkfifo(fifo, 0o600) == 0)
            for path in [fifo, directories[2]] {
                let error = #expect(throws: KeystoreError.self) {
                    try TrustedFile.contents(of: path)
                }
                #expect(error?.reason == "it is not a regular file")
            }
            expectRefusal(directories[2] + "/none", of: "/none", "No such file")
        }
    }

    @Test func `a secret in a directory that other users can write is refused`() throws {
        try tree { file, directories in
            try #require(chmod(file, 0o600) == 0)
            _ = try SecretFile.read(file, maximumCount: 10)
            try #require(chmod(directories[1], 0o777) == 0)
            let refusal = #expect(throws: SecretFile.Refusal.self) {
                try SecretFile.read(file, maximumCount: 10)
            }
            #expect(refusal?.reason == "other users can write \(directories[1])")
        }
    }
}
