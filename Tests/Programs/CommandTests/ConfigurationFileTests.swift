import FoundationEssentials
import Glibc
import LatchkeySimulators
import Testing

@Suite(.timeLimit(.minutes(15)))
struct ConfigurationFileTests {
    private static let isRoot = geteuid() == 0

    /// A machine with a configuration file that runs a program if it is used.
    private func machine() throws -> (machine: Machine, directory: String, file: String) {
        let machine = try Machine(tcti: nil)
        let directory = machine.directory.path(of: "config/latchkey")
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        let file = "\(directory)/config.json"
        let mark = machine.directory.path(of: "mark")
        try Data(#"{"container": "filed", "tcti": "cmd:touch \#(mark)"}"#.utf8).write(
            to: URL(filePath: file))
        try #require(chmod(directory, 0o755) == 0 && chmod(file, 0o644) == 0)
        return (machine, directory, file)
    }

    private func expectRefusal(_ machine: Machine, of place: String, _ words: String) async throws {
        let outcome = try await machine.run("key", "create", "--json")
        let error = try outcome.json()["error"]
        #expect(outcome.status == 2 && error?["code"] == "invalidInput")
        #expect(error?["message"]?.string?.contains(words) == true)
        #expect(error?["message"]?.string?.contains(place) == true)
        #expect(!FileManager.default.fileExists(atPath: machine.directory.path(of: "mark")))
    }

    @Test(arguments: [0o664, 0o646] as [mode_t])
    func `a file that other users can write is refused`(mode: mode_t) async throws {
        let (machine, _, file) = try machine()
        #expect(try await machine.run("status", "--json").json()["container"] == "filed")
        try #require(chmod(file, mode) == 0)
        try await expectRefusal(machine, of: file, "other users can write")
    }

    @Test(arguments: [0o775, 0o757, 0o1777] as [mode_t])
    func `a file in a directory that other users can write is refused`(mode: mode_t) async throws {
        let (machine, directory, _) = try machine()
        try #require(chmod(directory, mode) == 0)
        try await expectRefusal(machine, of: directory, "other users can write")
    }

    @Test(.enabled(if: isRoot, "giving a file away takes root"))
    func `another user's file is refused`() async throws {
        let (machine, directory, file) = try machine()
        try #require(chown(file, 65_534, 65_534) == 0)
        try await expectRefusal(machine, of: file, "belongs to another user")
        try #require(chown(file, 0, 0) == 0 && chown(directory, 65_534, 65_534) == 0)
        try await expectRefusal(machine, of: directory, "belongs to another user")
    }

    @Test(arguments: [
        (#"{"clientID": "app"}"#, "‘clientID’ is not a setting"),
        (#"["container"]"#, "not a JSON object"),
        (#"{"container": "#, "not a JSON object"),
    ])
    func `a malformed file or an unknown setting is an error`(content: String, words: String)
        async throws
    {
        let (machine, _, file) = try machine()
        try Data(content.utf8).write(to: URL(filePath: file))
        let outcome = try await machine.run("status", "--json")
        #expect(outcome.status == 2)
        let message = try #require(try outcome.json()["error"]?["message"]?.string)
        #expect(
            message.contains(words) && message.contains(file) && !message.contains("NSCocoa"),
            "\(message)")
    }

    @Test(arguments: [
        ("{\n  \"tcti\": \"x\",\n  \"token\" \"y\"\n}\n", 3, 11),
        ("{\n \"container\": \"a\",\n", 3, 1),
        (#"{"container": "ä", x}"#, 1, 20), (#"{"allow-short-pin": tru}"#, 1, 24),
        (#"{"container": "a"} x"#, 1, 20), ("{\"container\": \"a\n\"}", 1, 17), ("", 1, 1),
        (#"{"a": [1, -2.5e3, "\u00e9\n", null, {}], "b": 01}"#, 1, 48),
        (#"{"a": [1, 2}"#, 1, 12), (#"{"a": "\x"}"#, 1, 9),
    ])
    func `an error in the JSON is reported with its line and column`(
        content: String, line: Int, column: Int
    ) async throws {
        let (machine, _, file) = try machine()
        try Data(content.utf8).write(to: URL(filePath: file))
        let outcome = try await machine.run("status", "--json")
        #expect(outcome.status == 2)
        let message = try outcome.json()["error"]?["message"]?.string ?? ""
        #expect(message.contains(": line \(line), column \(column) is not JSON."), "\(message)")
    }

    @Test func `the missing part of the server's settings is named`() async throws {
        let (machine, _, file) = try machine()
        try Data(#"{"endpoint": "https://id.example"}"#.utf8).write(to: URL(filePath: file))
        let outcome = try await machine.run("login", "--json")
        #expect(outcome.status == 2)
        let error = try #require(outcome.json()["error"])
        #expect(error["message"]?.string?.contains("no client-id is configured") == true)
        #expect(
            error["recovery"]?.string
                == #"Set --client-id, or put it into \#(file): {"client-id": "…"}."#, "\(error)")
    }

    /// Each command reads all settings, also those that it does not use.
    @Test(arguments: [
        ("endpoint", "example.com", "‘example.com’ is neither an https address nor an http"),
        ("endpoint", "http://example.com", "‘http://example.com’ is neither an https address nor"),
        ("trusted-origins", "https://a.example,b.example", "‘b.example’ is not an origin"),
        ("token", "example", "pkcs11:"), ("container", "a\u{202E}b", "is not the name"),
        ("tcti", "device:/etc/passwd", "‘device:/etc/passwd’ is not a device"),
        ("pin-source", "env:PIN", "the value is not tty, pinentry"),
        ("agent-socket", "relative", "‘relative’ is neither an absolute path nor none"),
        ("token-login", "face", "‘face’ is not auto, pin or reader"),
        ("store", "~/x", "‘~/x’ is not an absolute path"),
        ("store", "$HOME/x", "‘$HOME/x’ is not an absolute path"),
        ("store", "", "‘’ is not an absolute path"),
        ("pin-source", "file:~/pin", "‘~/pin’ is not an absolute path"),
        ("tcti", "device:tpmrm0", "‘tpmrm0’ is not an absolute path"),
        ("tcti", "swtpm:path=~/socket", "‘~/socket’ is not an absolute path"),
        ("token", "pkcs11:token=a?module-path=lib/a.so", "‘lib/a.so’ is not an absolute path"),
    ])
    func `a value that no program accepts is an error with the file, the member and the cause`(
        name: String, value: String, cause: String
    ) async throws {
        let (machine, _, file) = try machine()
        try JSONEncoder().encode([name: value, "client-id": "x"]).write(to: URL(filePath: file))
        for command in [["status"], ["doctor"], ["config", "list"], ["login"]] {
            let outcome = try await machine.run(command + ["--json"])
            #expect(outcome.status == 2, "\(command) \(outcome)")
            let report = try outcome.json()
            // doctor reports it as a check.
            let check = report["checks"]?.array?.first { $0["name"] == "settings" }
            let message = (report["error"]?["message"] ?? check?["finding"])?.string ?? ""
            #expect(
                message.hasPrefix("Could not read the settings: \(name): ")
                    && message.contains(cause), "\(message)")
            let advice = (report["error"]?["recovery"] ?? check?["advice"])?.string
            #expect(advice == "Correct ‘\(name)’ in \(file).", "\(outcome)")
        }
        // The command that corrects it works.
        #expect(try await machine.run("config", "unset", name).status == 0)
        #expect(try await machine.run("status").status == 0)
    }

    /// A shell replaces `~` in an option, and an option is relative to the present directory.
    @Test func `an option can name a relative path, and config set cannot`() async throws {
        let machine = try Machine(tcti: nil)
        let status = try await machine.run("status", "--store", "nonexistent/x", "--json")
        #expect(status.output.contains("there is no store at"), "\(status)")
        let set = try await machine.run("config", "set", "store", "x", "--json")
        #expect(set.status == 2, "\(set)")
        #expect(
            try set.json()["error"]?["message"]?.string?.contains("‘x’ is not an absolute path")
                == true, "\(set)")
    }

    @Test func `a wrong address in a variable or an option is named by its place`() async throws {
        let machine = try Machine(tcti: nil)
        let option = try await machine.run("status", "--endpoint", "example.com", "--json")
        #expect(try option.json()["error"]?["recovery"] == "Correct --endpoint.", "\(option)")
        let variable = try await machine.run(
            "status", "--json", extra: ["LATCHKEY_ENDPOINT": "example.com"])
        #expect(
            try variable.json()["error"]?["recovery"] == "Correct LATCHKEY_ENDPOINT.",
            "\(variable)")
    }
}
