import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeySimulators
import Subprocess
import SystemPackage

/// `latchkey-demo`.
@main
struct DemoProgram: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-demo",
        abstract: "Show a login with latchkey, a software TPM and a local identity server.",
        discussion: """
            Runs the programs latchkey and latchkey-identity of its own directory, and enters the password and the PIN. \
            Changes nothing outside a temporary directory. Requires the program swtpm.
            """,
        version: Release.version)

    @Argument(
        help: ArgumentHelp(
            "Only log in at this address. The demo uses this as $BROWSER.", visibility: .hidden))
    var page: String?

    func run() async throws {
        do {
            if let page {
                let environment = ProcessInfo.processInfo.environment
                try await DemoBrowser.logIn(
                    at: page, username: environment["DEMO_USERNAME"] ?? "",
                    password: environment["DEMO_PASSWORD"] ?? "")
            } else {
                try await Self.demonstrate()
            }
        } catch let error as KeystoreError {
            throw DemoError("\(error) \(error.recovery)")
        }
    }

    private static func demonstrate() async throws {
        say("Start a software TPM and an identity server for this demo.")
        let directory = try TemporaryDirectory()
        try await SoftwareTPM.withRunning { tpm in
            try await LocalIdentityServer.withRunning { server in
                say("    TPM:     \(tpm.tcti)\n    Server:  \(server.endpoint)", line: "")
                let machine = try DemoMachine(tcti: tpm.tcti, server: server, directory: directory)
                for step in DemoStep.all(username: machine.user.username) {
                    say(step.heading)
                    say("  $ latchkey \(step.command)", line: "")
                    say(
                        try await machine.run(step).map { "    \($0)" }.joined(separator: "\n"),
                        line: "")
                }
            }
        }
        say("That is all. The demo has removed its TPM, server and store.")
    }

    /// Prints a text at once.
    static func say(_ text: String, line: String = "\n") {
        print(line + text)
        fflush(nil)
    }

    /// A program in the directory of this one.
    static func sibling(_ name: String) throws -> FilePath {
        let own = FilePath(
            try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        let program = own.removingLastComponent().appending(name)
        guard FileManager.default.isExecutableFile(atPath: program.string) else {
            throw DemoError("There is no \(program). Build it: swift build --product \(name)")
        }
        return program
    }
}

/// An error that ends the demo.
struct DemoError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// A command of the demo.
struct DemoStep {
    let heading: String
    let command: String
    /// A part of the command's output.
    let result: String
    var note = ""

    static func all(username: String) -> [DemoStep] {
        [
            DemoStep(
                heading: "First the user logs in with a password in the browser.",
                command: "login", result: "Logged in as \(username)"),
            DemoStep(
                heading:
                    "Biometric login is enabled: the TPM creates a key that it uses only with the PIN.",
                command: "enable --policy pin", result: "Biometric login is enabled",
                note:
                    "The TPM created the private key and never exports it. The server has the public key."
            ),
            DemoStep(
                heading: "The user logs out and keeps biometric login.",
                command: "logout --keep-biometric", result: ""),
            DemoStep(
                heading:
                    "The user logs in again with the PIN, without the browser and the password.",
                command: "authenticate", result: "Logged in as \(username)",
                note: "The TPM checked a proof of the PIN and signed the server's challenge."),
            DemoStep(
                heading: "The TPM counts wrong PINs.", command: "pin status",
                result: "Attempts left"),
            DemoStep(
                heading:
                    "Biometric login is disabled: the key is deleted here and removed from the server.",
                command: "disable", result: ""),
            DemoStep(
                heading: "The container is as before.", command: "status",
                result: "Biometric login:  not enabled"),
        ]
    }
}

/// A user's machine: the environment of latchkey.
struct DemoMachine {
    private static let pin = "258025"

    let user: LocalIdentityServer.Address.User
    private let environment: [Environment.Key: String?]
    /// The texts of the PIN prompts, one per line with pinentry's escapes.
    private let prompts: String

    init(tcti: String, server: LocalIdentityServer.Address, directory: TemporaryDirectory) throws {
        guard let user = server.users?.first else {
            throw DemoError("the identity server has no user for the demo")
        }
        self.user = user
        let (browser, pinentry) = (directory.path(of: "browser"), directory.path(of: "pinentry"))
        prompts = pinentry + ".texts"
        try Self.write("#!/bin/sh\nexec \"$DEMO_PROGRAM\" \"$1\"\n", to: browser)
        // The demo shows the PIN, because it protects nothing.
        try Self.write(
            """
            #!/bin/sh
            echo OK
            while read -r command text; do
              case $command in
                SETDESC) printf '%s\\n' "$text" >>"$0.texts"; echo OK ;;
                GETPIN) echo 'D \(Self.pin)'; echo OK ;;
                BYE) echo OK; exit ;;
                *) echo OK ;;
              esac
            done

            """, to: pinentry)
        environment = [
            "LATCHKEY_CONTAINER": "demo", "LATCHKEY_STORE": directory.path(of: "store"),
            "LATCHKEY_TCTI": tcti, "LATCHKEY_TOKEN": nil, "LATCHKEY_TRUSTED_ORIGINS": nil,
            "LATCHKEY_ENDPOINT": server.endpoint, "LATCHKEY_CLIENT_ID": server.clientID,
            "LATCHKEY_PIN_SOURCE": "pinentry", "PINENTRY_PROGRAM": pinentry, "BROWSER": browser,
            // No settings and no fingerprint reader of this machine.
            "XDG_CONFIG_HOME": directory.path,
            "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=\(directory.path(of: "no-bus"))",
            "DEMO_PROGRAM": try DemoProgram.sibling("latchkey-demo").string,
            "DEMO_USERNAME": user.username, "DEMO_PASSWORD": user.password,
        ]
    }

    /// Runs a command of latchkey.
    ///
    /// - Returns: The lines that its user sees: the prompts, then the output.
    func run(_ step: DemoStep) async throws -> [String] {
        let words = ["--quiet"] + step.command.split(separator: " ").map(String.init)
        let result = try await Subprocess.run(
            .path(try DemoProgram.sibling("latchkey")), arguments: Arguments(words),
            environment: .inherit.updating(environment), output: .string(limit: 1 << 16),
            error: .string(limit: 1 << 16))
        let (output, errors) = (result.standardOutput, result.standardError)
        guard result.terminationStatus.isSuccess, output.contains(step.result) else {
            throw DemoError("‘latchkey \(step.command)’ failed.\n\(output)\(errors)")
        }
        let shown = (try? String(contentsOfFile: prompts, encoding: .utf8)) ?? ""
        try? FileManager.default.removeItem(atPath: prompts)
        let questions = shown.split(separator: "\n").flatMap { text -> [String] in
            [
                String(text).replacing("%0A", with: " ").replacing("%25", with: "%"),
                "The demo enters \(Self.pin), as you would in a window or at a terminal.",
            ]
        }
        let notes = step.note.isEmpty ? [] : [step.note]
        return questions + output.split(separator: "\n").map(String.init) + notes
    }

    private static func write(_ script: String, to path: String) throws {
        try Data(script.utf8).write(to: URL(filePath: path))
        guard chmod(path, 0o700) == 0 else { throw DemoError("\(path) cannot be made a program") }
    }
}
