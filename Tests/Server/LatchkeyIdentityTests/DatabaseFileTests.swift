import Foundation
import GRDB
import Latchkey
import LatchkeyRelyingParty
import Testing

@testable import latchkey_identity

@Suite("Database file") struct DatabaseFileTests {
    @Test(arguments: ["", "-wal", "-journal"]) func `a file that others can read is refused`(
        suffix: String
    ) throws {
        try inDirectory { directory in
            let path = directory.appending(path: "identity.sqlite").path()
            try create(path, mode: 0o600)
            if !suffix.isEmpty { try create(path + suffix, mode: 0o600) }
            for mode in [0o644, 0o660, 0o604, 0o601] {
                try FileManager.default.setAttributes(
                    [.posixPermissions: mode], ofItemAtPath: path + suffix)
                #expect {
                    _ = try IdentityDatabase.open(path: path)
                } throws: {
                    "\($0)".contains("chmod 600 \(path + suffix)")
                }
            }
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o600], ofItemAtPath: path + suffix)
            _ = try IdentityDatabase.open(path: path)
        }
    }

    @Test func `commits survive a power failure`() throws {
        try inDirectory { directory in
            let database = try IdentityDatabase.open(
                path: directory.appending(path: "identity.sqlite").path()
            ).writer
            let (journal, synchronous) = try database.read { database in
                (
                    try String.fetchOne(database, sql: "PRAGMA journal_mode"),
                    try Int.fetchOne(database, sql: "PRAGMA synchronous")
                )
            }
            // FULL. With NORMAL, GRDB's setting for WAL, commits do not synchronise the log.
            #expect(journal == "wal" && synchronous == 2)
        }
    }

    @Test func `a symbolic link is refused`() throws {
        try inDirectory { directory in
            let (file, link) = (
                directory.appending(path: "file"), directory.appending(path: "link")
            )
            try create(file.path(), mode: 0o600)
            try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
            #expect {
                _ = try IdentityDatabase.open(path: link.path())
            } throws: {
                "\($0)".contains("is a symbolic link")
            }
        }
    }

    @Test func `a directory is refused`() throws {
        try inDirectory { directory in
            #expect(throws: ConfigurationError.self) {
                _ = try IdentityDatabase.open(path: directory.path())
            }
        }
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, to give a file away"))
    func `another user's file is refused`() throws {
        try inDirectory { directory in
            let path = directory.appending(path: "identity.sqlite").path()
            try create(path, mode: 0o600)
            try #require(chown(path, 65_534, 65_534) == 0)
            #expect {
                _ = try IdentityDatabase.open(path: path)
            } throws: {
                "\($0)".contains("belongs to another user")
            }
        }
    }

    private func create(_ path: String, mode: Int) throws {
        try #require(
            FileManager.default.createFile(
                atPath: path, contents: nil, attributes: [.posixPermissions: mode]))
    }

    private func inDirectory(_ body: (URL) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appending(
            path: "identity-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        try body(directory)
    }
}
