import Foundation
import Latchkey
import LatchkeyRelyingParty
import LatchkeySQLite
import LatchkeySimulators
import Testing

@Suite("SQLite files") struct SQLiteFileTests {
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
                    _ = try SQLiteDatabase(path: path, creating: true)
                } throws: {
                    "\($0)".contains("chmod 600 \(path + suffix)")
                }
            }
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o600], ofItemAtPath: path + suffix)
            _ = try SQLiteDatabase(path: path, creating: true)
        }
    }

    @Test func `commits survive a power failure`() async throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let database = try SQLiteDatabase(
            path: directory.path(of: "identity.sqlite"), creating: true)
        let (journal, synchronous) = try await database.read { database in
            (
                try database.rows("PRAGMA journal_mode").first?.text("journal_mode"),
                try database.rows("PRAGMA synchronous").first?.integer("synchronous")
            )
        }
        // FULL. With NORMAL, GRDB's setting for WAL, commits do not synchronise the log.
        #expect(journal == "wal" && synchronous == 2)
    }

    @Test func `a file is created on request only`() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "identity.sqlite")
        let error = #expect(throws: SQLiteFileError.self) {
            _ = try SQLiteDatabase(path: path, creating: false)
        }
        #expect(error?.description.contains("does not exist") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).isEmpty)
        _ = try SQLiteDatabase(path: path, creating: true)
        _ = try SQLiteDatabase(path: path, creating: false)
    }

    /// The database was moved without its log, which has its last transactions.
    @Test(arguments: ["-wal", "-shm", "-journal"], [true, false])
    func `a log without its database is refused and kept`(suffix: String, creating: Bool) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "identity.sqlite")
        let log = Data("transactions".utf8)
        try create(path + suffix, mode: 0o600)
        try log.write(to: URL(filePath: path + suffix))
        let error = #expect(throws: SQLiteFileError.self) {
            _ = try SQLiteDatabase(path: path, creating: creating)
        }
        #expect(error?.description.contains("but \(path + suffix), which") == true)
        #expect(try Data(contentsOf: URL(filePath: path + suffix)) == log)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: directory.path) == [
                "identity.sqlite\(suffix)"
            ])
    }

    @Test func `a file that another process uses for too long is a temporary error`() async throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let path = directory.path(of: "identity.sqlite")
        let (one, other) = (
            try SQLiteDatabase(path: path, creating: true),
            try SQLiteDatabase(path: path, creating: false)
        )
        let failure = await #expect(throws: SQLFailure.self) {
            let (started, start) = AsyncStream.makeStream(of: Void.self)
            let end = DispatchSemaphore(value: 0)
            let holder = Task {
                try await one.write { _ in
                    start.finish()
                    end.wait()
                }
            }
            for await _ in started {}
            defer { end.signal() }
            _ = holder
            try await other.write { try $0.script("CREATE TABLE t (n)") }
        }
        #expect(failure?.code == .timeout && failure?.isTemporary == true)
    }

    /// What another program does to the files of a database in use.
    enum Interference: CaseIterable, Sendable {
        case deletion, replacement, movedDirectory, replacedDirectory, deletedLog, deletedIndex

        /// The end of the name of the first file that differs.
        var suffix: String {
            switch self {
            case .deletion, .replacement, .movedDirectory, .replacedDirectory: ""
            case .deletedLog: "-wal"
            case .deletedIndex: "-shm"
            }
        }

        func happen(to path: String, in folder: String) throws {
            let files = FileManager.default
            let away = folder + ".away"
            switch self {
            case .deletion: try files.removeItem(atPath: path)
            case .replacement:
                try files.copyItem(atPath: path, toPath: away)
                try #require(rename(away, path) == 0)
            case .movedDirectory: try #require(rename(folder, away) == 0)
            case .replacedDirectory:
                try files.copyItem(atPath: folder, toPath: away + "2")
                try #require(rename(folder, away) == 0 && rename(away + "2", folder) == 0)
            case .deletedLog: try files.removeItem(atPath: path + "-wal")
            case .deletedIndex: try files.removeItem(atPath: path + "-shm")
            }
        }
    }

    @Test(arguments: Interference.allCases)
    func `a database whose file was replaced or deleted is neither read nor written`(
        interference: Interference
    ) async throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let folder = directory.path(of: "server")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let path = folder + "/identity.sqlite"
        let database = try SQLiteDatabase(path: path, creating: true)
        let other = try SQLiteDatabase(path: path, creating: false)
        try await database.write { try $0.script("CREATE TABLE t (n)") }
        try await other.write { try $0.execute("INSERT INTO t VALUES (1)") }
        #expect(try await database.read { try $0.rows("SELECT n FROM t").count } == 1)
        try interference.happen(to: path, in: folder)
        for isWriting in [false, true] {
            let failure = await #expect(throws: SQLFailure.self) {
                if isWriting {
                    try await database.write { try $0.execute("INSERT INTO t VALUES (2)") }
                } else {
                    _ = try await database.read { try $0.rows("SELECT n FROM t") }
                }
            }
            #expect(failure?.code == .unavailable && failure?.isTemporary == true)
            #expect(
                failure?.message.contains(
                    "replaced or deleted the file \(path + interference.suffix).") == true)
        }
        guard interference == .movedDirectory else { return }
        try #require(rename(folder + ".away", folder) == 0)
        try await database.write { try $0.execute("INSERT INTO t VALUES (2)") }
    }

    @Test func `a symbolic link is refused`() throws {
        try inDirectory { directory in
            let (file, link) = (
                directory.appending(path: "file"), directory.appending(path: "link")
            )
            try create(file.path(), mode: 0o600)
            try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
            #expect {
                _ = try SQLiteDatabase(path: link.path(), creating: true)
            } throws: {
                "\($0)".contains("is a symbolic link")
            }
        }
    }

    @Test func `a directory is refused`() throws {
        try inDirectory { directory in
            #expect(throws: SQLiteFileError.self) {
                _ = try SQLiteDatabase(path: directory.path(), creating: true)
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
                _ = try SQLiteDatabase(path: path, creating: true)
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

    @Test func `errors of SQLite are failures of the database, without the statement's values`()
        async throws
    {
        let database = try SQLiteDatabase()
        try await database.write {
            try $0.script("CREATE TABLE note (text TEXT UNIQUE); PRAGMA max_page_count = 4")
            try $0.execute("INSERT INTO note VALUES (\("secret"))")
        }
        func failure(_ text: String) async -> SQLFailure? {
            await #expect(throws: SQLFailure.self) {
                try await database.write { try $0.execute("INSERT INTO note VALUES (\(text))") }
            }
        }
        let repeated = await failure("secret")
        #expect(repeated?.code == .statement && repeated?.sqlState == "23000")
        #expect(repeated?.description.contains("secret") == false)
        let full = await failure(String(repeating: "x", count: 100_000))
        #expect(full?.code == .unavailable && full?.isTemporary == true)
    }
}
