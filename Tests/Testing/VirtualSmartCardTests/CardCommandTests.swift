import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// latchkey-card, used by a shell script.
struct CardCommandTests {
    private struct Ready: Decodable {
        let control: String
        let firmware: String
        let profile: String
        let serial: UInt32
    }

    @Test(.requires(program: "python3")) func `a script controls the card and stops it`()
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let control = directory.path(of: "control")
            let root = directory.path(of: "root.pem")
            let card = try RunningProgram(
                Self.program,
                [
                    "--firmware", "4.3.5", "--serial", "42", "--control", control,
                    "--attestation-root", root,
                ])
            let line = await card.output { _ in true }
            let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
            #expect(ready.control == control && ready.firmware == "4.3.5" && ready.serial == 42)
            #expect(ready.profile == "yubikey")
            let mode =
                try FileManager.default.attributesOfItem(atPath: control)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(
                try String(contentsOfFile: root, encoding: .utf8).hasPrefix(
                    "-----BEGIN CERTIFICATE-----\n"))

            let answers = try await Self.ask(
                control, "touch wait", "press", "eject", "insert", "fail 9a 6f00", "fail 99 6f00",
                "nonsense", "eject",
                "status")
            #expect(
                answers.dropLast() == [
                    #"{"done":true}"#, #"{"done":false,"error":"no key is waiting for a touch"}"#,
                    #"{"done":true}"#,
                    #"{"done":true}"#, #"{"done":true}"#, Self.usage, Self.usage, #"{"done":true}"#,
                ])
            #expect(
                answers.last
                    == #"{"done":true,"status":{"commands":0,"firmware":"4.3.5","inserted":false,"instructions":{},"#
                    + #""powerCycles":0,"serial":42,"touch":"wait","waitingForTouch":false}}"#)
            #expect(await card.stop() == 0)
            #expect(!FileManager.default.fileExists(atPath: control))
        }
    }

    @Test func `a socket that is in use is not replaced`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let control = directory.path(of: "control")
            let first = try RunningProgram(Self.program, ["--control", control])
            _ = await first.output { _ in true }
            let second = try RunningProgram(Self.program, ["--control", control])
            #expect(await second.wait() == 1)
            #expect(await second.remainder().errors.contains("Address already in use"))
            #expect(await first.stop(SIGKILL) == SIGKILL)
            let third = try RunningProgram(Self.program, ["--control", control])
            #expect(await third.output { _ in true }.contains(control), "a dead one's is replaced")
            #expect(await third.stop(SIGINT) == 0)
        }
    }

    @Test(.requires(program: "opensc-tool"), arguments: ["openpgp", "third-party"])
    func `OpenSC recognizes the card of a profile`(_ profile: String) async throws {
        try await SmartCardReader.withRunning { reader in
            try await TemporaryDirectory.withDirectory { directory in
                let control = directory.path(of: "control")
                let card = try RunningProgram(
                    Self.program,
                    [
                        "--port", "\(reader.ports[0])", "--profile", profile, "--serial", "7",
                        "--control", control,
                    ])
                let ready = try JSONDecoder().decode(
                    Ready.self, from: Data(await card.output { _ in true }.utf8))
                #expect(ready.profile == profile && ready.serial == 7)
                try #require(await reader.waitUntil(slot: 0, hasCard: true))
                let name = try await SystemProgram("opensc-tool").require([
                    "-r", SmartCardReader.name(ofSlot: 0), "-n",
                ])
                #expect(
                    name.contains(
                        profile == "openpgp"
                            ? "OpenPGP card v3.4 (F1D0 00000007)" : "Personal Identity Verification"
                    ),
                    "\(name)")
                #expect(await card.stop() == 0)
            }
        }
    }

    @Test(arguments: [
        ["--firmware", "5.4"], ["--reader", "--port", "1"], ["--touch-timeout", "0"],
        ["--firmware", "5.4.0", "--management-key-algorithm", "aes192"], ["--profile", "gemalto"],
        ["--profile", "openpgp", "--firmware", "5.4.3"],
        ["--profile", "third-party", "--management-key-algorithm", "tdes"],
    ]) func `invalid options are usage errors`(_ arguments: [String]) async throws {
        let card = try RunningProgram(Self.program, arguments)
        #expect(await card.wait() == 64)
    }

    private static let usage =
        #"{"done":false,"error":"one of: touch auto|deny|wait, press, eject, insert, fail SLOT STATUS, status"}"#

    /// The program in the test's build folder.
    private static var program: URL {
        get throws { URL(filePath: try BuiltProduct.path(of: "latchkey-card")) }
    }

    /// Sends one request per line, and returns the answers.
    private static func ask(_ control: String, _ requests: String...) async throws -> [String] {
        let script = """
            import socket, sys
            s = socket.socket(socket.AF_UNIX); s.settimeout(300); s.connect(sys.argv[1])
            f = s.makefile("rw")
            for line in sys.argv[2:]:
                f.write(line + "\\n"); f.flush(); print(f.readline(), end="")
            """
        return try await SystemProgram("python3").require(["-c", script, control] + requests)
            .split(separator: "\n").map(String.init)
    }
}
