import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import LatchkeyPKCS11

/// One process of a user at a time chooses a slot on a token.
@Suite struct TokenLockTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func lock(_ serial: String, _ limit: Duration = .milliseconds(50)) throws(CryptokiError)
        -> TokenLock
    {
        let identity = TokenIdentity(.sample(label: "a/../b", serial: serial), in: .generic)
        return try TokenLock(identity, directory: directory.path, waitingAtMost: limit) { false }
    }

    @Test func `a token is locked once at a time, and another token at the same time`() throws {
        let first = try lock("1")
        #expect(throws: CryptokiError(.locked, reason: "")) { try lock("1") }
        let second = try lock("2")
        withExtendedLifetime((first, second)) {}
    }

    @Test func `a released lock can be taken again`() throws {
        do { withExtendedLifetime(try lock("1")) {} }
        withExtendedLifetime(try lock("1")) {}
    }

    @Test func `a copy of the descriptor does not keep a released lock`() throws {
        let copies = try withExtendedLifetime(try lock("1")) {
            try directory.copiesOfLockDescriptors()
        }
        defer { for copy in copies { close(copy) } }
        #expect(copies.count == 1)
        withExtendedLifetime(try lock("1")) {}
    }

    @Test func `a wait for a lock ends when it is cancelled`() throws {
        let identity = TokenIdentity(.sample(label: "a", serial: "1"), in: .generic)
        let first = try TokenLock(identity, directory: directory.path, waitingAtMost: .zero) {
            false
        }
        #expect(throws: CryptokiError(.cancelled, reason: "")) {
            try TokenLock(identity, directory: directory.path, waitingAtMost: .seconds(60)) { true }
        }
        withExtendedLifetime(first) {}
    }

    @Test func `a symbolic link instead of the file is not followed`() throws {
        withExtendedLifetime(try lock("1")) {}
        let file = try #require(
            FileManager.default.contentsOfDirectory(atPath: directory.path).first)
        let path = directory.path(of: file)
        try #require(unlink(path) == 0 && symlink(directory.path(of: "elsewhere"), path) == 0)
        #expect(throws: CryptokiError(.lockUnavailable, reason: "")) { try lock("1") }
        #expect(access(directory.path(of: "elsewhere"), F_OK) != 0)
    }

    @Test func `the first directory is created and is used by all processes`() throws {
        let paths = [
            directory.path(of: "home/.local/state/latchkey/locks"), directory.path(of: "run"),
        ]
        for _ in 0..<2 {
            let chosen = try TokenLock.directory(among: paths)
            #expect(chosen == paths[0])
        }
        #expect(access(paths[1], F_OK) != 0)
    }

    @Test func `a directory that another user can write is not used`() throws {
        let paths = [directory.path(of: "shared"), directory.path(of: "own")]
        try #require(mkdir(paths[0], 0o700) == 0 && chmod(paths[0], 0o777) == 0)
        let chosen = try TokenLock.directory(among: paths)
        #expect(chosen == paths[1])
        let error = #expect(throws: CryptokiError.self) {
            try TokenLock.directory(among: [paths[0]])
        }
        #expect(error?.kind == .lockUnavailable)
        #expect(error?.reason.contains(paths[0]) == true)
    }
}
