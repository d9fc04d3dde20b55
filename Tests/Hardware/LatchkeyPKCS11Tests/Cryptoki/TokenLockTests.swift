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

    private func lock(_ serial: String, _ limit: Duration = .milliseconds(50)) async throws
        -> ProcessLock
    {
        let identity = TokenIdentity(.sample(label: "a/../b", serial: serial), in: .generic)
        return try await ProcessLock.ofToken(
            identity, in: directory.path, waitingAtMost: limit)
    }

    @Test func `a token is locked once at a time, and another token at the same time`() async throws
    {
        let first = try await lock("1")
        #expect(await cryptokiError { _ = try await lock("1") }?.kind == .locked)
        let second = try await lock("2")
        withExtendedLifetime((first, second)) {}
    }

    @Test func `a released lock can be taken again`() async throws {
        do { withExtendedLifetime(try await lock("1")) {} }
        withExtendedLifetime(try await lock("1")) {}
    }

    @Test func `a copy of the descriptor does not keep a released lock`() async throws {
        let first = try await lock("1")
        let copies = try withExtendedLifetime(first) { try directory.copiesOfLockDescriptors() }
        defer { for copy in copies { close(copy) } }
        #expect(copies.count == 1)
        first.release()
        withExtendedLifetime(try await lock("1")) {}
    }

    @Test func `a wait for a lock ends when it is cancelled`() async throws {
        let first = try await lock("1")
        let waiting = Task { await cryptokiError { _ = try await lock("1", .seconds(60)) }?.kind }
        waiting.cancel()
        #expect(await waiting.value == .cancelled)
        withExtendedLifetime(first) {}
    }

    @Test func `a symbolic link instead of the file is not followed`() async throws {
        withExtendedLifetime(try await lock("1")) {}
        let file = try #require(
            FileManager.default.contentsOfDirectory(atPath: directory.path).first)
        let path = directory.path(of: file)
        try #require(unlink(path) == 0 && symlink(directory.path(of: "elsewhere"), path) == 0)
        #expect(await cryptokiError { _ = try await lock("1") }?.kind == .lockUnavailable)
        #expect(access(directory.path(of: "elsewhere"), F_OK) != 0)
    }

    @Test func `the first directory is created and is used by all processes`() throws {
        let paths = [
            directory.path(of: "home/.local/state/latchkey/locks"), directory.path(of: "run"),
        ]
        for _ in 0..<2 {
            let chosen = try ProcessLock.directory(among: paths)
            #expect(chosen == paths[0])
        }
        #expect(access(paths[1], F_OK) != 0)
    }

    @Test func `a directory that another user can write is not used`() throws {
        let paths = [directory.path(of: "shared"), directory.path(of: "own")]
        try #require(mkdir(paths[0], 0o700) == 0 && chmod(paths[0], 0o777) == 0)
        let chosen = try ProcessLock.directory(among: paths)
        #expect(chosen == paths[1])
        let error = #expect(throws: CryptokiError.self) {
            try ProcessLock.directory(among: [paths[0]])
        }
        #expect(error?.kind == .lockUnavailable)
        #expect(error?.reason.contains(paths[0]) == true)
    }

    @Test func `a module that never returns delays a reset of cards for a time only`() async throws
    {
        let directory = try TemporaryDirectory()
        let search = try #require(
            CardSearch.begun(atMost: .milliseconds(200), in: directory.path))
        let file = try #require(
            FileManager.default.contentsOfDirectory(atPath: directory.path).first {
                $0.hasPrefix("search-") && !$0.hasPrefix("search-entry")
            })
        let other = try ProcessLock(String(file.dropLast(".lock".count)), in: directory.path)
        #expect(await poll { (try? other.take()) == true })
        withExtendedLifetime(search) {}
    }
}
