import Foundation
import Glibc
import LatchkeySimulators

/// PostgreSQL in its own directory, with one database for each number of devices.
struct FleetDatabase: Sendable {
    /// The first process of PostgreSQL. It is the parent of the others.
    let process: Int32
    private let folder: String
    private let programs: String

    /// Starts PostgreSQL, runs `body`, and stops PostgreSQL.
    static func withRunning<R>(_ body: (FleetDatabase) async throws -> R) async throws -> R {
        guard let programs else {
            throw Failure(reason: "PostgreSQL is not installed: apt install postgresql")
        }
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let folder = directory.path(of: "postgresql")
        try prepare(folder, in: directory)
        let data = "\(folder)/data"
        let initialize = UnprivilegedProgram(path: "\(programs)/initdb")
        try initialize.run(["-D", data, "-U", user, "--auth=trust", "--no-locale", "-E", "UTF8"])
        let settings = [
            "listen_addresses=", "shared_buffers=256MB", "max_wal_size=1GB",
            "checkpoint_timeout=1h",
            "max_connections=100", "shared_preload_libraries=pg_stat_statements",
            "logging_collector=on",
            "log_directory=\(folder)",
        ]
        return try await UnprivilegedProgram(path: "\(programs)/postgres").serving(
            ["-D", data, "-k", folder] + settings.flatMap { ["-c", $0] }, printsLine: false
        ) { process, _ in
            let ready = Program(name: "\(programs)/pg_isready")
            let isReady = { (try? ready.run(["-q", "-h", folder, "-U", user])) != nil }
            for _ in 0..<600 where !isReady() { try await Task.sleep(for: .milliseconds(100)) }
            guard isReady() else { throw Failure(reason: "PostgreSQL did not start") }
            return try await body(
                FleetDatabase(process: process, folder: folder, programs: programs))
        }
    }

    /// Creates a database with the server's tables and these devices.
    ///
    /// - Returns: Its address.
    func create(_ devices: FleetDevices) throws -> String {
        let name = Self.name(devices)
        try sql(["CREATE DATABASE \(name)"], in: "postgres")
        let address = "postgresql:///\(name)?host=\(folder)&user=\(Self.user)"
        try Program.built("latchkey-identity").run(["migrate", "--database", address])
        // Without triggers and the checks of foreign keys, which would take longer than inserting
        // the rows.
        let insertion = ["SET session_replication_role = replica"] + devices.insertion(.postgreSQL)
        try sql(insertion, in: name)
        try sql(["CREATE EXTENSION pg_stat_statements", "VACUUM ANALYZE", "CHECKPOINT"], in: name)
        return address
    }

    /// Runs SQL as the owner of the database of these devices.
    ///
    /// - Returns: The rows, one in a line, with `|` between columns.
    @discardableResult
    func sql(_ statements: [String], of devices: FleetDevices) throws -> String {
        try sql(statements, in: Self.name(devices))
    }

    @discardableResult
    private func sql(_ statements: [String], in database: String) throws -> String {
        let options = [
            "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", folder, "-U", Self.user, "-d", database,
        ]
        let printed = try Program(name: "\(programs)/psql").run(
            options + statements.flatMap { ["-c", $0] })
        return String(decoding: printed, as: UTF8.self).trimmingCharacters(
            in: .whitespacesAndNewlines)
    }

    private static func name(_ devices: FleetDevices) -> String { "fleet\(devices.count)" }

    private static let user = "latchkey"

    /// The folder with the programs of the newest installed version; nil without PostgreSQL.
    private static let programs: String? = {
        let folder = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return versions.compactMap { Int($0) }.max().map { "\(folder)/\($0)/bin" }
    }()

    /// Creates the folder for the user `postgres`, because PostgreSQL does not run as root.
    private static func prepare(_ folder: String, in directory: TemporaryDirectory) throws {
        let manager = FileManager.default
        try manager.createDirectory(atPath: folder, withIntermediateDirectories: false)
        guard geteuid() == 0 else { return }
        try manager.setAttributes([.posixPermissions: 0o711], ofItemAtPath: directory.path)
        guard let owner = getpwnam("postgres"),
            chown(folder, owner.pointee.pw_uid, owner.pointee.pw_gid) == 0
        else {
            throw Failure(reason: "there is no user postgres")
        }
    }
}

/// A program that runs as the user `postgres` if this program runs as root.
private struct UnprivilegedProgram {
    let path: String

    func run(_ arguments: [String]) throws { try program.run(words + arguments) }

    func serving<R>(
        _ arguments: [String], printsLine: Bool, _ body: (Int32, Data) async throws -> R
    ) async throws -> R {
        try await program.serving(words + arguments, printsLine: printsLine, body)
    }

    private var isRoot: Bool { geteuid() == 0 }

    private var program: Program { Program(name: isRoot ? "setpriv" : "sh") }

    /// The words before the program's arguments. The shell leaves this program's folder, which the
    /// other user may not read.
    private var words: [String] {
        (isRoot ? ["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"] : [])
            + ["-c", "cd / && exec \"$@\"", "sh", path]
    }
}
