import FoundationEssentials
import Latchkey
import LatchkeyServices
import LatchkeySimulators
import SystemPackage
import Testing

/// Behaviour without a TPM and a server.
@Suite(.timeLimit(.minutes(15)))
struct UsageTests {
    /// A machine without a TPM, so that commands that use one fail.
    private func machine() throws -> Machine { try Machine(tcti: "device:/nonexistent/tpm") }

    private static let root = FilePath(#filePath).removingLastComponent().removingLastComponent()
        .removingLastComponent().removingLastComponent()

    @Test func `status of an empty container does not prompt or use hardware or network`()
        async throws
    {
        let outcome = try await machine().run("status", "--json")
        #expect(outcome.status == 0)
        #expect(outcome.errors.isEmpty)
        #expect(
            try outcome.json() == [
                "container": "default", "lastUserID": nil, "biometricEnabled": false,
                "sessionState": "NO_SESSION",
                "kid": nil, "sshKeys": 0,
            ])
    }

    @Test func `key list of an empty container is an empty list`() async throws {
        #expect(try await machine().run("key", "list", "--json").json() == ["keys": .array([])])
    }

    @Test func `an option works before and after the command`() async throws {
        let machine = try machine()
        for arguments in [
            ["--container", "work", "--json", "status"],
            ["--json", "status", "--container", "work"],
        ] {
            #expect(try await machine.run(arguments).json()["container"] == "work")
        }
    }

    @Test
    func
        `an option overrides the environment, the environment overrides the file, the file overrides the default`()
        async throws
    {
        let machine = try machine()
        let directory = machine.directory.path(of: "config/latchkey")
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        try Data(#"{"container": "filed"}"#.utf8).write(
            to: URL(filePath: "\(directory)/config.json"))
        #expect(try await machine.run("status", "--json").json()["container"] == "filed")
        let variable = ["LATCHKEY_CONTAINER": "exported"]
        #expect(
            try await machine.run("status", "--json", extra: variable).json()["container"]
                == "exported")
        let option = try await machine.run(
            "status", "--json", "--container", "given", extra: variable)
        #expect(try option.json()["container"] == "given")
    }

    @Test(arguments: [
        ["bogus"], ["--bogus"], ["key", "sign", "ABCDEFGH"],
        ["key", "sign", "ABCDEFGH", "--digest", "00"],
        ["key", "sign", "ABCDEFGH", "file", "--digest", String(repeating: "0", count: 64)],
        ["key", "show", ""],
        ["key", "attest", "ABCDEFGH", "--challenge", "AA"], ["enable", "--policy", "none"],
        ["key", "create", "--policy", "face"], ["status", "--pin-source", "env:PIN"],
        ["key", "export", "ABCDEFGH"],
        ["status", "--container", ""], ["token", "init"], ["token", "pin", "--so", "--unblock"],
        ["token", "pin"],
        ["--token", "x", "status"], ["--token", "pkcs11:pin-value=1234", "status"],
        ["--token", "pkcs11:token=x", "--token-login", "face", "status"],
        ["--token", "pkcs11:token=x", "--token-isolation", "some", "status"],
        ["key", "create", "--slot", "9f"], ["key", "csr", "ABCDEFGH"],
        ["key", "csr", "ABCDEFGH", "--subject", "x"],
        ["status", "--tcti", ""], ["key", "create", "--tcti", "device:/etc/passwd"],
        ["locker", "start", "--client-id", "c", "--endpoint", "http://example.org"],
        ["login", "--client-id", "c", "--endpoint", "nonsense"],
    ])
    func `wrong usage ends with 2 and one JSON object`(arguments: [String]) async throws {
        let outcome = try await machine().run(arguments + ["--json"])
        #expect(outcome.status == 2)
        let error = try #require(outcome.json()["error"])
        #expect(error["code"]?.string?.isEmpty == false)
        #expect(error["message"]?.string?.isEmpty == false)
        #expect(error["recovery"]?.string?.isEmpty == false)
        #expect(!outcome.errors.isEmpty)
    }

    @Test func `an unknown key ends with 6, and stderr has the error and the next step`()
        async throws
    {
        let outcome = try await machine().run("key", "show", "NO-SUCH-KEY")
        #expect(outcome.status == 6)
        #expect(outcome.output.isEmpty)
        #expect(
            outcome.errors == """
                latchkey: Could not show the key: the container ‘default’ has no key ‘NO-SUCH-KEY’.
                latchkey: See ‘latchkey key list’, and --container for the keys of other containers.

                """)
    }

    @Test func `an error names the command, and the option, variable or name to correct`()
        async throws
    {
        let machine = try machine()
        let cases: [(arguments: [String], message: String, recovery: String)] = [
            (
                ["key", "sign", "zzz", "/dev/null"], "Could not sign: the container",
                "latchkey key list"
            ),
            (
                ["key", "sign", "a", "/no/file"], "Could not sign: /no/file cannot be read",
                "Name a file"
            ),
            (
                ["status", "--pin-source", "foo"], "pin-source: the value is not tty",
                "Correct --pin-source."
            ),
            (["status", "--token", "foo"], "token: ", "Correct --token."),
            (
                ["key", "list", "--container", ""],
                "‘’ is not the name of a container, which has 1 to 128 bytes",
                "Correct --container."
            ),
            (
                ["key", "list", "--store", "/etc/passwd"],
                "the store cannot be opened: /etc/passwd", "LATCHKEY_STORE"
            ),
            (
                ["credential", "add"], "Could not add the credential: standard input is empty",
                "< FILE"
            ),
            (["vault", "show", "nope"], "there is no vault ‘nope’", "latchkey vault list"),
            (["key", "sign", "a"], "The data to sign is missing", "‘latchkey key sign --help’"),
        ]
        for expected in cases {
            let error = try await machine.run(expected.arguments + ["--json"]).json()["error"]
            #expect(
                error?["message"]?.string?.contains(expected.message) == true,
                "\(String(describing: error))")
            #expect(
                error?["recovery"]?.string?.contains(expected.recovery) == true,
                "\(String(describing: error))")
        }
        let token = try await machine.run("credential", "add", "--json", input: "x").json()["error"]
        #expect(
            token?["message"]
                == "Could not add the credential: standard input is not a JSON object.")
        #expect(try await machine.run("credential", "list").output == "There are no credentials.\n")
        #expect(
            try await machine.run("credential", "list", "--where", "a=b").output
                == "There are no such credentials.\n")
    }

    @Test func `login without a server is a usage error`() async throws {
        for command in ["login", "enable", "authenticate", "disable", "logout"] {
            let outcome = try await machine().run(command, "--json")
            #expect(outcome.status == 2)
            #expect(try outcome.json()["error"]?["code"] == "invalidInput")
        }
    }

    @Test func `a command that needs the TPM reports a missing TPM and the next step`() async throws
    {
        for arguments in [["key", "create", "--policy", "none"], ["pin", "status"]] {
            let outcome = try await machine().run(arguments + ["--json"])
            #expect(outcome.status == 7)
            let error = try #require(outcome.json()["error"])
            #expect(error["code"] == "unavailable")
            #expect(error["recovery"]?.string?.isEmpty == false)
        }
    }

    @Test func `doctor without a TPM ends with 7 and names the missing part`() async throws {
        let outcome = try await machine().run("doctor", "--json")
        #expect(outcome.status == 7)
        let report = try outcome.json()
        #expect(report["ok"] == false)
        let problem = try #require(report["checks"]?.array?.first { $0["state"] == "problem" })
        #expect(problem["name"] == "tpm")
        #expect(
            problem["finding"]?.string
                == "There is no /nonexistent/tpm: the kernel has found no TPM.")
        #expect(problem["advice"]?.string?.isEmpty == false)
    }

    @Test func `a store that others can read is refused`() async throws {
        let machine = try machine()
        let path = machine.directory.path(of: "open")
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o777]
        )
        let outcome = try await machine.run("status", "--store", path, "--json")
        #expect(outcome.status == 7)
        #expect(try outcome.json()["error"]?["code"] == "unavailable")
    }

    @Test func `help and version go to stdout and end with 0`() async throws {
        let machine = try machine()
        let version = try await machine.run("--version")
        #expect(version.status == 0)
        #expect(version.output.hasPrefix("\(Release.version)\n"))
        #expect(version.output.contains(/\nSQLite 3\.\d+\.\d+\n/))
        #expect(version.output.contains(/\nOpenSSL \d+\.\d+/) && version.errors.isEmpty)
        let object = try await machine.run("--version", "--json").json()
        #expect(object["version"]?.string == Release.version)
        #expect(object["libraries"]?["SQLite"]?.string?.hasPrefix("3.") == true)
        for command in [
            [], ["help"], ["--help"], ["key", "--help"], ["help", "key", "sign"],
        ] {
            let help = try await machine.run(command)
            #expect(help.status == 0)
            #expect(help.output.contains("USAGE: latchkey"))
            #expect(help.errors.isEmpty)
        }
    }

    @Test func `the changelog begins with the version of the programs`() throws {
        let changes = try String(contentsOfFile: "\(Self.root)/CHANGELOG.md", encoding: .utf8)
        let heading = try #require(changes.split(separator: "\n").first { $0.hasPrefix("## ") })
        #expect(heading.split(separator: " ").dropFirst().first.map(String.init) == Release.version)
    }

    @Test func `the man page has every option and every exit code of the help`() async throws {
        let page = try String(
            contentsOfFile: "\(Self.root)/packaging/man/latchkey.1", encoding: .utf8)
        let help = try await machine().run("--help").output
        let options = help.split(whereSeparator: \.isWhitespace).filter {
            $0.hasPrefix("--") && !["--version", "--help"].contains($0)
        }
        for option in options where option.dropFirst(2).first?.isLetter == true {
            #expect(
                page.contains("Fl -\(option.dropFirst(2).prefix { $0.isLetter || $0 == "-" })"),
                "\(option)")
        }
        for status in ExitStatus.allCases {
            #expect(page.contains(".It \(status.rawValue)\n\(status.meaning)\n"))
        }
    }

    @Test(arguments: ["bash", "zsh", "fish"])
    func `each shell has completions`(shell: String) async throws {
        let outcome = try await machine().run("--generate-completion-script", shell)
        #expect(outcome.status == 0)
        for command in ["doctor", "authenticate", "attest", "token"] {
            #expect(outcome.output.contains(command))
        }
    }
}
