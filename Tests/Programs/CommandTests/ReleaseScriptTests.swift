import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `scripts/release` in a repository with the files that it reads.
@Suite(
    .requires(program: "git"), .requires(program: "ssh-keygen"), .timeLimit(.minutes(15)))
struct ReleaseScriptTests {
    private static let version = "Sources/Core/Latchkey/Support/Release.swift"
    private static let dated = "# Changelog\n\n## \(Release.version) — 2026-11-28\n"

    /// A repository, and a key outside of it.
    private struct Project {
        let directory: TemporaryDirectory
        var root: String { directory.path(of: "latchkey") }
        var key: String { directory.path(of: "key") }
        var output: String { "\(root)/.build/dist" }

        init(changelog: String) async throws {
            directory = try TemporaryDirectory()
            let source = BuiltProduct.packageFolder.path
            for path in ["scripts/release", ReleaseScriptTests.version] {
                let folder = "\(root)/\(path)".split(separator: "/").dropLast()
                try FileManager.default.createDirectory(
                    atPath: "/" + folder.joined(separator: "/"), withIntermediateDirectories: true)
                try FileManager.default.copyItem(
                    atPath: "\(source)/\(path)", toPath: "\(root)/\(path)")
            }
            try write(changelog, to: "CHANGELOG.md")
            try write(".build\n", to: ".gitignore")
            try await git("init", "--quiet")
            try await git("add", "--all")
            try await commit()
            try await SystemProgram("ssh-keygen").require(
                ["-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", key])
        }

        func write(_ text: String, to path: String) throws {
            try Data(text.utf8).write(to: URL(filePath: "\(root)/\(path)"))
        }

        func git(_ arguments: String...) async throws {
            try await SystemProgram("git").require(["-C", root] + arguments)
        }

        func commit() async throws {
            try await git(
                "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c",
                "commit.gpgsign=false", "commit", "--quiet", "--all", "--allow-empty",
                "--message", "test")
        }

        func release() async throws -> SystemProgram.Outcome {
            try await SystemProgram("\(root)/scripts/release").result(of: ["--key", key])
        }

        /// The names of the released files.
        func released() throws -> Set<String> {
            Set(try FileManager.default.contentsOfDirectory(atPath: output))
        }
    }

    @Test func `a release has the sources, checksums and a signature`() async throws {
        let project = try await Project(changelog: Self.dated)
        let outcome = try await project.release()
        #expect(outcome.isSuccess, "\(outcome.text)")
        let archive = "latchkey-\(Release.version).tar.gz"
        #expect(try project.released() == [archive, "SHA256SUMS", "SHA256SUMS.sig"])
        let files = try await SystemProgram("tar").require(
            ["-tzf", "\(project.output)/\(archive)"])
        #expect(files.contains("latchkey-\(Release.version)/\(Self.version)\n"))

        // The commands of the script's help.
        let signers = project.directory.path(of: "signers")
        let publicKey = try String(contentsOfFile: "\(project.key).pub", encoding: .utf8)
        try Data("ann@example.com \(publicKey)".utf8).write(to: URL(filePath: signers))
        let check = """
            cd "$1" && ssh-keygen -Y verify -f "$2" -I ann@example.com -n file -s SHA256SUMS.sig \
            <SHA256SUMS && sha256sum --check SHA256SUMS
            """
        let shell = SystemProgram("sh")
        try await shell.require(["-c", check, "sh", project.output, signers])
        try Data("other".utf8).write(to: URL(filePath: "\(project.output)/\(archive)"))
        #expect(
            try await !shell.result(of: ["-c", check, "sh", project.output, signers]).isSuccess)
    }

    @Test func `a changed file that is not committed is refused`() async throws {
        let project = try await Project(changelog: Self.dated)
        try project.write("new", to: "new.txt")
        try await refuses(project, "there are changes that are not committed")
    }

    @Test(arguments: ["# Changelog\n\n## 0.0.9 — 2026-11-28\n", nil])
    func `a version without a dated section of the changelog is refused`(_ changelog: String?)
        async throws
    {
        let unreleased = "# Changelog\n\n## \(Release.version) — unreleased\n"
        let project = try await Project(changelog: changelog ?? unreleased)
        try await refuses(project, "CHANGELOG.md has no section ‘## \(Release.version) — ’")
    }

    @Test func `a version whose tag names another commit is refused`() async throws {
        let project = try await Project(changelog: Self.dated)
        try await project.git("tag", "v\(Release.version)")
        #expect(try await project.release().isSuccess)
        try await project.commit()
        try await refuses(project, "the tag v\(Release.version) names another commit")
    }

    @Test(.requires(program: "dpkg-deb")) func `packages of another commit are refused`()
        async throws
    {
        let project = try await Project(changelog: Self.dated)
        let commit = try await SystemProgram("git").require(
            ["-C", project.root, "rev-parse", "HEAD"]
        ).trimmingCharacters(in: .whitespacesAndNewlines)
        try await makePackage(in: project, commit: commit)
        #expect(try await project.release().isSuccess)
        #expect(try project.released().contains("latchkey.deb"))
        try await makePackage(in: project, commit: "\(commit)-dirty")
        try await refuses(project, "is not from the last commit")
    }

    private func makePackage(in project: Project, commit: String) async throws {
        let script = """
            mkdir -p "$1/p/DEBIAN" "$1/p/usr/share/doc/latchkey" "$2/.build/packages"
            printf 'latchkey %s\\n' "$3" >"$1/p/usr/share/doc/latchkey/SOURCES"
            printf 'Package: latchkey\\nVersion: %s-1\\nArchitecture: all\\n' "$4" >"$1/p/DEBIAN/control"
            printf 'Maintainer: Ann <ann@example.com>\\nDescription: test\\n' >>"$1/p/DEBIAN/control"
            dpkg-deb --root-owner-group --build "$1/p" "$2/.build/packages/latchkey.deb"
            """
        try await SystemProgram("sh").require([
            "-euc", script, "sh", project.directory.path, project.root, commit, Release.version,
        ])
    }

    private func refuses(
        _ project: Project, _ reason: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let outcome = try await project.release()
        #expect(outcome.status == 1, sourceLocation: sourceLocation)
        #expect(outcome.errors.contains(reason), "\(outcome.text)", sourceLocation: sourceLocation)
    }
}
