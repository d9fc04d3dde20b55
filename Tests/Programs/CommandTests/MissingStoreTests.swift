import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTesting
import SystemPackage
import Testing

/// Commands where there is no store: only those that store something create it.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct MissingStoreTests {
    /// Those that show an empty state.
    private static let showing = [
        ["key", "list"], ["key", "list", "--all"], ["status"], ["vault", "list"],
        ["credential", "list"], ["credential", "default"], ["passkey", "list"], ["ssh", "list"],
        ["locker", "status"], ["pin", "status"], ["attestation", "show"],
    ]
    /// Those that need something that is stored.
    private static let using = [
        ["key", "show", "x"], ["key", "sign", "x", "/dev/null"],
        ["key", "export", "x", "--format", "pem"],
        ["key", "csr", "x", "--subject", "CN=x"],
        ["key", "attest", "x", "--challenge", "AAECAwQFBgcICQ"],
        ["key", "rename", "x", "y"], ["key", "delete", "x"], ["pin", "change"],
        ["ssh", "add", "x"],
        ["ssh", "remove", "x"], ["ssh", "export", "x"],
        ["ssh", "restrict", "x", "--host", "h.example"],
        ["ssh", "certificate", "x", "--remove"], ["vault", "show", "x"], ["vault", "update", "x"],
        ["vault", "upgrade", "x"], ["vault", "downgrade", "x"], ["vault", "lock", "x"],
        ["vault", "unlock", "x"], ["vault", "reset", "x"], ["vault", "status", "x"],
        ["credential", "show", "abcd"], ["credential", "default", "abcd"],
        ["credential", "tag", "abcd", "k=v"], ["credential", "refresh", "abcd"],
        ["credential", "revoke", "abcd"], ["credential", "remove", "abcd"],
        ["passkey", "show", "x"], ["passkey", "rename", "x", "y"], ["passkey", "delete", "x"],
        ["store", "reset", "--yes"], ["enable"], ["authenticate"], ["disable"],
        ["locker", "background"], ["locker", "end", "--mode", "lock"], ["attestation", "forget"],
    ]

    private func machine() throws -> Machine {
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        machine.environment["LATCHKEY_ENDPOINT"] = "http://127.0.0.1:9"
        machine.environment["LATCHKEY_CLIENT_ID"] = "app"
        return machine
    }

    private func exists(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    @Test func `without a store, a new user's commands show an empty one, and create none`()
        async throws
    {
        let machine = try machine()
        let store = machine.directory.path(of: "data/latchkey")
        for command in Self.showing {
            let outcome = try await machine.run(command)
            #expect(outcome.status == 0, "\(command): \(outcome.errors)")
            #expect(outcome.errors.isEmpty, "\(command): \(outcome.errors)")
            #expect(!exists(store), "\(command)")
        }
        #expect(
            try await machine.run("key", "list", "--json").json()["keys"]?.array?.isEmpty == true)
        for command in Self.using {
            let outcome = try await machine.run(command, pins: ["258025"], input: "x")
            #expect([2, 6].contains(outcome.status), "\(command): \(outcome.errors)")
            #expect(!exists(store), "\(command)")
        }
        #expect(
            try await machine.run("doctor").output.contains("There is no store at \(store) yet"))
        #expect(!exists(store))
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        #expect(exists(machine.databasePath))
    }

    @Test func `a mistyped directory is an error that names it, and is not created`() async throws {
        let machine = try machine()
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        let typo = machine.directory.path(of: "typo")
        for command in Self.showing + Self.using {
            let outcome = try await machine.run(
                command + ["--store", typo, "--json"], pins: ["258025"], input: "x")
            #expect(outcome.status == 6, "\(command): \(outcome.output)\(outcome.errors)")
            let message = try outcome.json()["error"]?["message"]?.string ?? ""
            #expect(message.contains("there is no store at \(typo)"), "\(command): \(message)")
            #expect(!exists(typo), "\(command)")
        }
        let doctor = try await machine.run("doctor", "--store", typo)
        #expect(doctor.output.contains("There is no store at \(typo) yet"))
        // A variable names the store of all commands, also of the first one.
        let listed = try await machine.run("key", "list", extra: ["LATCHKEY_STORE": typo])
        #expect(listed.status == 0 && listed.output == "There are no keys.\n")
        #expect(
            listed.errors.contains("There is no store at \(typo), which LATCHKEY_STORE names."),
            "\(listed.errors)")
        #expect(!exists(typo))
    }

    @Test(arguments: ["key", "ssh", "vault", "credential", "passkey"])
    func `an empty list names a container that is not the default`(group: String) async throws {
        let machine = try machine()
        let usual = try await machine.run(group, "list")
        #expect(usual.status == 0 && usual.output.hasPrefix("There are no "), "\(usual)")
        #expect(!usual.output.contains("container"), "\(usual)")
        let other = try await machine.run(group, "list", "--container", "defualt")
        #expect(other.status == 0)
        #expect(other.output.contains(" in the container ‘defualt’."), "\(other)")
        let json = try await machine.run(group, "list", "--container", "defualt", "--json")
        #expect(!json.output.contains("defualt"))
    }

    @Test func `what is at the place of a store is named, and stays as it is`() async throws {
        let machine = try machine()
        let place = machine.directory.path(of: "place")
        let target = machine.directory.path(of: "target")
        let cases: [(reason: String, make: () throws -> Void)] = [
            ("\(place) is not a directory", { try Data("x".utf8).write(to: URL(filePath: place)) }),
            (
                "\(place) is not a directory",
                {
                    try FileManager.default.createSymbolicLink(
                        atPath: place, withDestinationPath: target)
                }
            ),
            (
                "\(place)/default is not a directory",
                {
                    try FileManager.default.createDirectory(
                        atPath: place, withIntermediateDirectories: false,
                        attributes: [.posixPermissions: 0o700])
                    try FileManager.default.createSymbolicLink(
                        atPath: place + "/default", withDestinationPath: target)
                }
            ),
            (
                "\(place)/default/latchkey.sqlite is not a regular file",
                {
                    try FileManager.default.createDirectory(
                        atPath: place + "/default", withIntermediateDirectories: true,
                        attributes: [.posixPermissions: 0o700])
                    try FileManager.default.createSymbolicLink(
                        atPath: place + "/default/latchkey.sqlite", withDestinationPath: target)
                }
            ),
        ]
        for (reason, make) in cases {
            try make()
            for command in [["key", "list"], ["status"], ["vault", "list"], ["doctor"]] {
                let outcome = try await machine.run(command + ["--store", place])
                #expect(outcome.status == 7, "\(command): \(outcome.output)\(outcome.errors)")
                #expect(
                    (outcome.output + outcome.errors).contains(reason),
                    "\(command): \(outcome.output)\(outcome.errors)")
            }
            #expect(!exists(target))
            try FileManager.default.removeItem(atPath: place)
        }
    }

    @Test(.enabled(if: geteuid() == 0, "the test runs the tool as another user"))
    func `a directory that the user cannot read is not taken for a missing store`() async throws {
        let machine = try machine()
        try #require(chmod(machine.directory.path, 0o755) == 0)
        let place = machine.directory.path(of: "closed")
        try FileManager.default.createDirectory(
            atPath: place + "/store", withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        let denied = try await machine.run(
            "--reuid=65534", "--regid=65534", "--clear-groups", Products.latchkey.string, "key",
            "list", "--store", place + "/store", program: "/usr/bin/setpriv")
        #expect(denied.status == 7, "\(denied.output)\(denied.errors)")
        #expect(denied.errors.contains("\(place)/store cannot be used: "), "\(denied.errors)")
    }
}
