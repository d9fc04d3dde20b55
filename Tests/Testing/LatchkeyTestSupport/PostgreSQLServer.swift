package import Foundation
internal import Glibc
internal import LatchkeySimulators
internal import Testing

/// A PostgreSQL server in its own directory, which tests start, stop and restart. It ends, and its
/// directory is deleted, with the process that started it.
package actor PostgreSQLServer {
    /// The server that tests share. Each test creates its own database.
    package static let shared = PostgreSQLServer()

    /// The folder with the programs of the newest installed version; nil without PostgreSQL.
    private static let programs: String? = {
        let folder = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return versions.compactMap(Int.init).max().map { "\(folder)/\($0)/bin" }
    }()

    package static var isInstalled: Bool { programs != nil }

    /// Whether identity servers of tests use PostgreSQL instead of SQLite, unless the test names a
    /// database: `LATCHKEY_TEST_DATABASE=postgresql`.
    package static let isSelected =
        ProcessInfo.processInfo.environment["LATCHKEY_TEST_DATABASE"] == "postgresql"

    /// PostgreSQL does not run as root.
    private static let user: [String] =
        geteuid() == 0 ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []

    /// How to end the server.
    package enum Shutdown: String, Sendable, CaseIterable {
        /// Ends the connections and writes all data.
        case fast = "INT"
        /// Ends at once, as a crash does.
        case immediate = "QUIT"
    }

    /// Settings that replace those of all tests.
    private let settings: [String: String]
    private var starting: Task<URL, any Error>?
    private var server: (process: Process, input: Pipe)?
    private var count = 0

    /// - Parameter settings: Names and values of `postgresql.conf`.
    package init(_ settings: [String: String] = [:]) { self.settings = settings }

    /// Creates an empty database.
    ///
    /// - Returns: Its address.
    package func database() async throws -> String {
        let folder = try await running()
        count += 1
        let name = "test\(count)"
        try await Self.run("createdb", ["-h", folder.path, "-U", "latchkey", name])
        return "postgresql:///\(name)?host=\(folder.path)&user=latchkey"
    }

    /// The folder of the server's socket, log and data. Starts the server.
    package var folder: URL { get async throws { try await running() } }

    /// Stops the server and starts it again.
    package func restart(_ shutdown: Shutdown = .immediate) async throws {
        let folder = try await running()
        try await stop(shutdown)
        try await start(folder)
    }

    /// Stops the server, and keeps its data.
    package func stop(_ shutdown: Shutdown) async throws {
        guard let (process, input) = server else { return }
        server = nil
        try input.fileHandleForWriting.write(contentsOf: Data("\(shutdown.rawValue)\n".utf8))
        try input.fileHandleForWriting.close()
        guard await poll(until: { !process.isRunning }) else {
            throw PostgreSQLServerError(text: "postgres does not end")
        }
    }

    /// Stops the server and deletes its data.
    package func end() async throws {
        guard let folder = try await starting?.value else { return }
        try await stop(.immediate)
        try? FileManager.default.removeItem(at: folder)
        starting = nil
    }

    /// Starts a replica that receives all changes by streaming replication. From then on a
    /// transaction is confirmed only when the replica has it.
    package func synchronousReplica() async throws -> PostgreSQLServer {
        let replica = PostgreSQLServer(settings)
        try await replica.follow(try await running())
        let address = "postgresql:///postgres?host=\(try await running().path)&user=latchkey"
        try await psql(address, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        try await psql(address, "SELECT pg_reload_conf()")
        let isSynchronous = try await poll(until: {
            try await self.psql(address, "SELECT sync_state FROM pg_stat_replication").contains(
                "sync\n")
        })
        guard isSynchronous else {
            throw PostgreSQLServerError(text: "the replica does not follow")
        }
        return replica
    }

    /// Copies a server's data and follows it.
    private func follow(_ primary: URL) async throws {
        let task = Task {
            let folder = try Self.makeFolder()
            try await Self.run(
                "pg_basebackup",
                [
                    "-D", "\(folder.path)/data", "-h", primary.path, "-U", "latchkey",
                    "--no-password",
                    "--checkpoint=fast", "--write-recovery-conf", "--no-sync",
                ])
            try await start(folder)
            return folder
        }
        starting = task
        _ = try await task.value
    }

    /// Makes a replica a primary, which accepts writes.
    package func promote() async throws {
        let address = "postgresql:///postgres?host=\(try await running().path)&user=latchkey"
        guard try await psql(address, "SELECT pg_promote(true, 300)") == "t\n" else {
            throw PostgreSQLServerError(text: "the replica was not promoted")
        }
    }

    /// Runs SQL as an administrator, with a program of its own.
    @discardableResult
    package func psql(_ address: String, _ sql: String) async throws -> String {
        try await Self.run("psql", ["-qAt", "-v", "ON_ERROR_STOP=1", "-c", sql, address])
    }

    private func running() async throws -> URL {
        if let starting { return try await starting.value }
        let task = Task {
            let folder = try Self.makeFolder()
            try await Self.run(
                "initdb",
                [
                    "-D", "\(folder.path)/data", "-U", "latchkey", "--auth-local=trust",
                    "--auth-host=scram-sha-256",
                    "-N",
                ])
            try await start(folder)
            return folder
        }
        starting = task
        return try await task.value
    }

    private static func makeFolder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "latchkey-pg-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try give(folder.path)
        return folder
    }

    /// Makes the server's user the owner of a file.
    package static func give(_ path: String) throws {
        guard geteuid() == 0, let owner = getpwnam("postgres") else { return }
        guard chown(path, owner.pointee.pw_uid, owner.pointee.pw_gid) == 0 else {
            throw PostgreSQLServerError(text: "\(path) cannot be given to the user postgres")
        }
    }

    /// Starts the server below a shell, which reads the name of the signal that stops it. When this
    /// process ends, the shell's standard input is closed, the server ends too, and the shell
    /// deletes the folder, which has hundreds of megabytes.
    private func start(_ folder: URL) async throws {
        guard let programs = Self.programs else { throw CocoaError(.fileNoSuchFile) }
        let process = Process()
        let input = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        // Of two values of a setting, PostgreSQL uses the last one.
        let own = settings.sorted { $0.key < $1.key }.flatMap { ["-c", "\($0.key)=\($0.value)"] }
        process.arguments =
            Self.user + [
                "sh", "-c",
                #"""
                "$@" </dev/null >>"$FOLDER/log" 2>&1 & server=$!
                read name
                kill -"${name:-QUIT}" $server; wait $server
                [ -n "$name" ] || rm -rf -- "$FOLDER"
                """#,
                "sh",
                "\(programs)/postgres", "-D", "\(folder.path)/data", "-k", folder.path, "-c",
                "listen_addresses=", "-c",
                "fsync=off", "-c", "max_connections=400", "-c", "shared_buffers=32MB", "-c",
                "log_statement=all",
            ] + own
        process.environment = ["FOLDER": folder.path, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"]
        process.currentDirectoryURL = URL(filePath: "/")
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        // The shell waits for SIGCHLD, which Dispatch's threads block.
        try RunningProgram.withoutBlockedSignals { try process.run() }
        server = (process, input)
        guard
            try await poll(until: {
                try await HelperProgram.run(
                    "\(programs)/pg_isready", ["-q", "-h", folder.path, "-U", "latchkey"]
                )
                .isSuccess
            })
        else { throw PostgreSQLServerError(text: "postgres does not accept connections") }
    }

    /// The server's log, with all statements.
    package func log() async throws -> String {
        let folder = try await running()
        return try String(contentsOf: folder.appending(path: "log"), encoding: .utf8)
    }

    @discardableResult
    private static func run(_ program: String, _ arguments: [String]) async throws -> String {
        guard let programs else { throw CocoaError(.fileNoSuchFile) }
        let command = user + ["\(programs)/\(program)"] + arguments
        let result = try await HelperProgram.run("env", ["-C", "/"] + command)
        guard result.isSuccess else {
            throw PostgreSQLServerError(text: "\(program): \(result.text)")
        }
        return result.text
    }
}

/// Runs `body` with an empty database of a server that this test alone uses, then stops the server.
package func withDatabase(
    _ server: PostgreSQLServer, _ body: (_ address: String) async throws -> Void
)
    async throws
{
    try await withTeardown({
        do { try await server.end() } catch { Issue.record(error) }
    }) {
        try await body(try await server.database())
    }
}

/// A program of PostgreSQL failed.
package struct PostgreSQLServerError: Error {
    package let text: String
}
