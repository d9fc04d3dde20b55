internal import Foundation
internal import Glibc
internal import LatchkeySimulators

/// A PostgreSQL server in its own directory, which tests start, stop and restart. It ends with the process that started it.
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

    /// PostgreSQL does not run as root.
    private static let user: [String] =
        geteuid() == 0 ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []

    private var starting: Task<URL, any Error>?
    private var server: (process: Process, input: Pipe)?
    private var count = 0

    package init() {}

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

    /// Stops the server at once, as a crash does, and starts it again.
    package func restart() async throws {
        let folder = try await running()
        try stop()
        try await start(folder)
    }

    /// Stops the server and deletes its data.
    package func end() async throws {
        guard let folder = try await starting?.value else { return }
        try stop()
        try? FileManager.default.removeItem(at: folder)
        starting = nil
    }

    /// Runs SQL as an administrator, with a program of its own.
    @discardableResult
    package func psql(_ address: String, _ sql: String) async throws -> String {
        try await Self.run("psql", ["-qAt", "-v", "ON_ERROR_STOP=1", "-c", sql, address])
    }

    private func running() async throws -> URL {
        if let starting { return try await starting.value }
        let task = Task {
            let folder = FileManager.default.temporaryDirectory.appending(
                path: "latchkey-pg-\(UUID().uuidString.prefix(8))")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            if geteuid() == 0, let owner = getpwnam("postgres") {
                _ = chown(folder.path, owner.pointee.pw_uid, owner.pointee.pw_gid)
            }
            try await Self.run(
                "initdb",
                [
                    "-D", "\(folder.path)/data", "-U", "latchkey", "--auth-local=trust", "--auth-host=scram-sha-256",
                    "-N",
                ])
            try await start(folder)
            return folder
        }
        starting = task
        return try await task.value
    }

    /// Starts the server below a shell that stops it when this process ends: then its standard input is closed.
    private func start(_ folder: URL) async throws {
        guard let programs = Self.programs else { throw CocoaError(.fileNoSuchFile) }
        let process = Process()
        let input = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments =
            Self.user + [
                "sh", "-c", "\"$@\" </dev/null >\"$LOG\" 2>&1 & server=$!; read _; kill -QUIT $server; wait $server",
                "sh",
                "\(programs)/postgres", "-D", "\(folder.path)/data", "-k", folder.path, "-c", "listen_addresses=", "-c",
                "fsync=off", "-c", "max_connections=400", "-c", "shared_buffers=32MB", "-c", "log_statement=all",
            ]
        process.environment = ["LOG": "\(folder.path)/log", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"]
        process.currentDirectoryURL = URL(filePath: "/")
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        // The shell waits for SIGCHLD, which Dispatch's threads block.
        try RunningProgram.withoutBlockedSignals { try process.run() }
        server = (process, input)
        guard
            try await poll(until: {
                try await HelperProgram.run("\(programs)/pg_isready", ["-q", "-h", folder.path, "-U", "latchkey"])
                    .isSuccess
            })
        else { throw PostgreSQLServerError(text: "postgres does not accept connections") }
    }

    private func stop() throws {
        try server?.input.fileHandleForWriting.close()
        server?.process.waitUntilExit()
        server = nil
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
        guard result.isSuccess else { throw PostgreSQLServerError(text: "\(program): \(result.text)") }
        return result.text
    }
}

/// A program of PostgreSQL failed.
package struct PostgreSQLServerError: Error {
    package let text: String
}
