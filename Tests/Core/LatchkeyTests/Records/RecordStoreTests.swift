import Crypto
import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

struct RecordStoreTests {
    @Test func `a new store is closed to other users`() async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            let store = try await RecordStore(directory: directory + "/a/b")
            _ = try await store.anchor("x", is: Data([1]))
            #expect(try mode(directory + "/a/b") == 0o700)
            #expect(try mode(directory + "/a/b/default") == 0o700)
            for file in try FileManager.default.contentsOfDirectory(
                atPath: directory + "/a/b/default")
            {
                #expect(try mode(directory + "/a/b/default/" + file) == 0o600, "\(file)")
            }
        }
    }

    @Test func `directories and files that others can read are refused`() async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            _ = try await RecordStore(directory: directory)
            let file = directory + "/default/latchkey.sqlite"
            for (path, open, closed) in [(directory, 0o750, 0o700), (file, 0o644, 0o600)] {
                try FileManager.default.setAttributes([.posixPermissions: open], ofItemAtPath: path)
                await #expect(throws: unavailable) { try await RecordStore(directory: directory) }
                try FileManager.default.setAttributes(
                    [.posixPermissions: closed], ofItemAtPath: path)
                _ = try await RecordStore(directory: directory)
            }
        }
    }

    @Test func `a symbolic link in place of the file is refused`() async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            let folder = directory + "/store/default"
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o700], ofItemAtPath: directory + "/store")
            try FileManager.default.createSymbolicLink(
                atPath: folder + "/latchkey.sqlite", withDestinationPath: directory + "/elsewhere")
            await #expect(throws: unavailable) {
                try await RecordStore(directory: directory + "/store")
            }
            #expect(!FileManager.default.fileExists(atPath: directory + "/elsewhere"))
        }
    }

    @Test(arguments: ["link/", "link/.", "link//./"])
    func `a symbolic link in place of the directory is refused, with any spelling`(name: String)
        async throws
    {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            do { _ = try await RecordStore(directory: directory + "/store/./") }
            try FileManager.default.createSymbolicLink(
                atPath: directory + "/link", withDestinationPath: directory + "/store")
            let error = await #expect(throws: unavailable) {
                try await RecordStore(directory: "\(directory)/\(name)")
            }
            #expect(error?.reason == "\(directory)/link is not a directory")
        }
    }

    @Test(arguments: ["-wal", "-shm", "-journal"], ["a link", "a pipe", "a directory"])
    func `a side file of SQLite that is not a regular file is refused`(suffix: String, kind: String)
        async throws
    {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            do { _ = try await RecordStore(directory: directory) }
            let path = directory + "/default/latchkey.sqlite" + suffix
            switch kind {
            case "a link": #expect(symlink(directory + "/elsewhere", path) == 0)
            case "a pipe": #expect(mkfifo(path, 0o600) == 0)
            default: #expect(mkdir(path, 0o700) == 0)
            }
            let error = await #expect(throws: unavailable) {
                try await RecordStore(directory: directory)
            }
            #expect(error?.reason == "\(path) is not a regular file")
            #expect(!FileManager.default.fileExists(atPath: directory + "/elsewhere"))
        }
    }

    @Test(arguments: ["", "-wal", "-shm", "-journal"])
    func `a file of the store with another name is refused, and is not written`(suffix: String)
        async throws
    {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            do { _ = try await RecordStore(directory: directory) }
            let path = directory + "/default/latchkey.sqlite" + suffix
            let other = directory + "/other"
            if suffix.isEmpty {
                #expect(link(path, other) == 0)
            } else {
                #expect(FileManager.default.createFile(atPath: other, contents: Data("a".utf8)))
                #expect(chmod(other, 0o600) == 0)
                #expect(link(other, path) == 0)
            }
            let before = try Data(contentsOf: URL(filePath: other))
            let error = await #expect(throws: CommonError.self) {
                try await RecordStore(directory: directory)
            }
            #expect(error?.code == .damaged)
            #expect(error?.reason == "\(path) has more than one name (hard link)")
            #expect(try Data(contentsOf: URL(filePath: other)) == before)
            // Archiving gives a new store, and does not write the other file either.
            try await RecordStore.startOver(directory: directory)
            _ = try await RecordStore(directory: directory).anchor("a", is: Data([1]))
            #expect(try Data(contentsOf: URL(filePath: other)) == before)
        }
    }

    @Test(.requires(program: "python3"))
    func `a store that is opened twice stays intact while other connections open and close`()
        async throws
    {
        try await TemporaryDirectory.withDirectory { temporary in
            let first = try await RecordStore(directory: temporary.path)
            _ = try await first.anchor("a", is: Data([1]))
            let second = try await RecordStore(directory: temporary.path)
            // If no locks show another connection, the last program to close removes the log.
            let script = """
                import sqlite3, sys
                store = sqlite3.connect(sys.argv[1])
                print([row[0] for row in store.execute("SELECT name FROM anchor ORDER BY name")])
                store.close()
                """
            func others() async throws -> String {
                try await SystemProgram("python3").result(of: ["-c", script, first.path]).output
            }
            #expect(try await others() == "['a']\n")
            _ = try await first.anchor("b", is: Data([2]))
            #expect(try await others() == "['a', 'b']\n")
            #expect(try await second.anchor("b") == Data([2]))
        }
    }

    @Test(arguments: ["", ".", "..", "a/b", ".hidden", String(repeating: "x", count: 65)])
    func `a profile can't leave the store's directory`(profile: String) async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            await #expect(throws: invalidInput) {
                try await RecordStore(directory: directory, profile: profile)
            }
        }
    }

    @Test func `a file that is not a database is damaged and not changed`() async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            _ = try await RecordStore(directory: directory)
            let file = URL(fileURLWithPath: directory + "/default/latchkey.sqlite")
            let garbage = Data((0..<8192).map { UInt8(truncatingIfNeeded: $0) })
            try garbage.write(to: file)
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o600], ofItemAtPath: file.path)
            await #expect(throws: damaged) { try await RecordStore(directory: directory) }
            #expect(try Data(contentsOf: file) == garbage)
        }
    }

    @Test(arguments: [
        "CREATE TABLE theirs (x)", "PRAGMA application_id = 7",
        "PRAGMA user_version = 3; CREATE VIEW v AS SELECT 1",
    ])
    func `a database of something else is refused and stays as it is`(content: String) async throws
    {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            try makeFile(directory, content)
            let before = try files(directory)
            await #expect(throws: damaged) { try await RecordStore(directory: directory) }
            #expect(try files(directory) == before)
        }
    }

    @Test(arguments: [
        "CREATE TRIGGER t AFTER INSERT ON revocation BEGIN DELETE FROM revocation; END",
        "CREATE TRIGGER t AFTER INSERT ON REVOCATION BEGIN DELETE FROM revocation; END",
        "DROP TABLE revocation; CREATE VIEW revocation AS SELECT 1 AS container, 2 AS name, 3 AS sealed, 4 AS isDue",
        """
        DROP TABLE revocation;
        CREATE TABLE revocation (
            container TEXT NOT NULL, name TEXT NOT NULL, sealed BLOB NOT NULL, isDue INTEGER NOT NULL,
            PRIMARY KEY (container, name),
            FOREIGN KEY (container, name) REFERENCES classKey(container, name) ON DELETE CASCADE
        ) STRICT
        """,
        "CREATE UNIQUE INDEX one ON revocation (isDue)",
        "CREATE UNIQUE INDEX one ON Revocation (isDue)",
        "ALTER TABLE revocation ADD COLUMN more INTEGER CHECK (isDue = 0)",
    ])
    func `a store with what would change a write is refused and stays as it is`(content: String)
        async throws
    {
        try await expectDamaged(after: content)
    }

    @Test(arguments: [
        "DROP TABLE anchor", "DROP TABLE record", "DROP TABLE recordAttribute",
        "DROP TABLE revocation",
        "DROP INDEX recordKind",
        """
        DROP TABLE anchor; DROP TABLE classKey; DROP TABLE container; DROP TABLE record; DROP TABLE recordAttribute;
        DROP TABLE revocation
        """,
    ])
    func `a missing table is damage, and nothing is made again`(content: String)
        async throws
    {
        try await expectDamaged(after: content)
    }

    private func expectDamaged(after content: String) async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            do { _ = try await RecordStore(directory: directory) }
            try await DatabaseQueue.raw(at: directory + "/default/latchkey.sqlite")
                .writeWithoutTransaction {
                    try $0.execute(sql: content)
                }
            let before = try files(directory)
            await #expect(throws: damaged) { try await RecordStore(directory: directory) }
            #expect(try files(directory) == before)
        }
    }

    /// The last one would prevent the deletion of the row that it references.
    @Test(arguments: [
        "ANALYZE", "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
        """
        CREATE TABLE theirs (container TEXT, id TEXT, FOREIGN KEY (container, id) REFERENCES record ON DELETE RESTRICT);
        INSERT INTO theirs SELECT container, id FROM record
        """,
    ])
    func `statistics of SQLite and tables of other programs are accepted`(content: String)
        async throws
    {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            do { _ = try await RecordStore(directory: directory) }
            try await DatabaseQueue.raw(at: directory + "/default/latchkey.sqlite")
                .writeWithoutTransaction {
                    try $0.execute(
                        sql: """
                            INSERT INTO record VALUES
                                ('default', 'a', 'note', 'device', '"none"', '{}', NULL, NULL, 1, 0, 0, x'00');
                            \(content)
                            """)
                }
            let store = try await RecordStore(directory: directory)
            let records = try RecordContainer(
                store: store, keystore: TPMKeystore(tcti: "device:/nowhere/tpmrm0", anchors: store))
            try await records.apply(
                [.delete("a", ifGeneration: 1)], for: PromptContext(reason: "test the store"))
            #expect(try await records.keys().isEmpty)
        }
    }

    /// Another version may use another journal mode, or none of our tables.
    @Test func `a store of another format is refused and not changed`() async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            try makeFile(
                directory, "PRAGMA application_id = 0x4C746368; CREATE TABLE future (x)")
            let before = try files(directory)
            let error = await #expect(throws: damaged) {
                try await RecordStore(directory: directory)
            }
            #expect(error?.recoveryAction.actions == [.resetStore])
            #expect(try files(directory) == before)
        }
    }

    /// Creates a database at the store's path, with a rollback journal, SQLite's default.
    private func makeFile(_ directory: String, _ content: String) throws {
        try FileManager.default.createDirectory(
            atPath: directory + "/default", withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        let path = directory + "/default/latchkey.sqlite"
        try DatabaseQueue.raw(at: path).writeWithoutTransaction { try $0.execute(sql: content) }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    /// The digests of all files of the profile.
    private func files(_ directory: String) throws -> [String: SHA256.Digest] {
        let folder = directory + "/default"
        return try Dictionary(
            uniqueKeysWithValues: FileManager.default.contentsOfDirectory(atPath: folder).map {
                name in
                (name, SHA256.hash(data: try Data(contentsOf: URL(filePath: "\(folder)/\(name)"))))
            })
    }

    @Test func `the first anchor is final for every process`() async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            let one = try await RecordStore(directory: directory)
            let other = try await RecordStore(directory: directory)
            #expect(try await one.anchor("srk") == nil)
            #expect(try await one.anchor("srk", is: Data([1])) == Data([1]))
            #expect(try await other.anchor("srk", is: Data([2])) == Data([1]))
            #expect(try await other.anchor("srk") == Data([1]))
        }
    }

    /// As when a user restores a backup while a service runs: SQLite would continue to write the old
    /// file, and the changes would be lost.
    @Test(arguments: ["replaced", "deleted"])
    func `a store whose file was replaced or deleted is neither read nor written`(
        change: String
    ) async throws {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            let file = directory + "/default/latchkey.sqlite"
            let backup = directory + "/backup"
            let store = try await RecordStore(directory: directory)
            _ = try await store.anchor("x", is: Data([1]))
            try await DatabaseQueue.raw(at: file).vacuum(into: backup)
            _ = try await store.anchor("y", is: Data([2]))
            for suffix in ["", "-wal", "-shm"] {
                try FileManager.default.removeItem(atPath: file + suffix)
            }
            if change == "replaced" {
                try FileManager.default.moveItem(atPath: backup, toPath: file)
            }
            for _ in 0..<2 {
                await #expect(throws: CommonError.conflict("")) { try await store.anchor("x") }
                await #expect(throws: CommonError.conflict("")) {
                    try await store.anchor("z", is: Data([3]))
                }
            }
            guard change != "deleted" else {
                #expect(!FileManager.default.fileExists(atPath: file))
                return
            }
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o600], ofItemAtPath: file)
            let restored = try await RecordStore(directory: directory)
            #expect(try await restored.anchor("x") == Data([1]))
            #expect(try await restored.anchor("y") == nil)
            #expect(try await restored.anchor("z") == nil)
        }
    }

    private func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }
}
