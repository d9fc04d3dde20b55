import FoundationEssentials
import Glibc
import LatchkeySimulators
import SystemPackage
import Testing

/// The administrator's file of a machine, at its real path: the programs run in a mount namespace
/// with a copy of `/etc`, so that other programs of this machine do not see it.
struct AdministratorsFile {
    static let path = "/etc/latchkey/config.json"
    static let nobody: uid_t = 65_534

    private let directory: TemporaryDirectory
    private var etc: String { directory.path(of: "etc") }

    /// - Parameter text: The contents; nil for no file.
    init(_ text: String?) async throws {
        directory = try TemporaryDirectory()
        try await program("cp", ["-a", "/etc", etc])
        // Another user must be able to read it.
        try #require(chmod(directory.path, 0o755) == 0)
        try? FileManager.default.removeItem(atPath: "\(etc)/latchkey")
        try #require(mkdir("\(etc)/latchkey", 0o755) == 0)
        if let text { try write(text) }
    }

    func write(_ text: String) throws {
        try Data(text.utf8).write(to: URL(filePath: file))
        try #require(chmod(file, 0o644) == 0)
    }

    /// The file and its directory outside of the namespace.
    var file: String { "\(etc)/latchkey/config.json" }
    var folder: String { "\(etc)/latchkey" }

    /// Runs a program on the machine.
    ///
    /// - Parameter user: The user who runs it, who gets the machine's directory.
    func run(
        _ arguments: String..., on machine: Machine, as user: uid_t = 0,
        extra: [String: String] = [:], pins: [String]? = nil, input: String = "",
        program path: FilePath = Products.latchkey
    ) async throws -> Outcome {
        try await run(
            arguments, on: machine, as: user, extra: extra, pins: pins, input: input,
            program: path)
    }

    func run(
        _ arguments: [String], on machine: Machine, as user: uid_t = 0,
        extra: [String: String] = [:], pins: [String]? = nil, input: String = "",
        program path: FilePath = Products.latchkey
    ) async throws -> Outcome {
        if user != 0 {
            try await program("chown", ["-R", "\(user):\(user)", machine.directory.path])
        }
        let command = command(path, as: user)
        return try await machine.run(
            command.dropFirst() + arguments, pins: pins, input: input, extra: extra,
            program: FilePath(command[0]))
    }

    /// The words that run a program on the machine.
    func command(_ path: FilePath, as user: uid_t = 0) -> [String] {
        let identity = ["setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups"]
        // The other user may not reach the folder of the programs.
        let name = path.lastComponent?.string ?? ""
        return [
            "/usr/bin/unshare", "--mount", "--propagation", "private", "sh", "-c",
            #"mount --bind "$1" /etc && mount --bind "$2" /mnt && shift 2 && exec "$@""#, "sh",
            etc, path.removingLastComponent().string,
        ] + (user == 0 ? [] : identity) + ["/mnt/\(name)"]
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with the reason, without the rights of root.
    static var asRoot: Self { .enabled(if: geteuid() == 0, "a file of root takes root") }
}
