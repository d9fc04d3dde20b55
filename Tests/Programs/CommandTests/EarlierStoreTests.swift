import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A store, a TPM and a server's database that the programs of commit c6b1978 wrote: before logins
/// were bound to their server, and keys to their ID and label.
@Suite(
    .serialized, .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .requires(program: "openssl"), .timeLimit(.minutes(15)))
struct EarlierStoreTests {
    private static let pin = "2580"
    /// The locker's enrolment names the server's port.
    private static let port = 47113
    private static let files = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "Stores/before-server-binding")

    /// Restores the TPM and the store on a machine.
    private func machine() async throws -> Machine {
        let tpm = try SoftwareTPM.current
        await tpm.stop()
        try copy("tpm2-00.permall", to: tpm.stateDirectory)
        try await tpm.start()
        let machine = try Machine(tcti: tpm.tcti)
        let store = machine.directory.path(of: "data/latchkey/default")
        try FileManager.default.createDirectory(
            atPath: store, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700]
        )
        try copy("latchkey.sqlite", to: store)
        try copy("identity.sqlite", to: machine.directory.path)
        return machine
    }

    private func copy(_ name: String, to directory: String) throws {
        let path = "\(directory)/\(name)"
        try Data(contentsOf: Self.files.appending(path: name)).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    private func withServer(_ machine: Machine, _ body: (Machine) async throws -> Void) async throws
    {
        try await IdentityProcess.withRunning(
            database: machine.directory.path(of: "identity.sqlite"), port: "\(Self.port)"
        ) { server in
            var machine = machine
            machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
            machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
            machine.environment["BROWSER"] = try ScriptedBrowser(
                user: server.users[0], in: machine.directory
            ).path
            try await body(machine)
        }
    }

    @Test(arguments: [("release", [pin]), ("second", [pin]), ("revocable", [pin]), ("bare", [])])
    func `a key signs`(_ label: String, _ pins: [String]) async throws {
        let machine = try await machine()
        let (signature, key, message) = ("signature", "key.pem", "message")
        try Data("hello".utf8).write(to: URL(filePath: machine.directory.path(of: message)))
        let signed = try await machine.run(
            "key", "sign", label, machine.directory.path(of: message), "--format", "der",
            "--output",
            machine.directory.path(of: signature), pins: pins)
        #expect(signed.status == 0, "\(signed.errors)")
        let exported = try await machine.run("key", "export", label, "--format", "pem")
        try Data(exported.output.utf8).write(to: URL(filePath: machine.directory.path(of: key)))
        try await program(
            "openssl",
            [
                "dgst", "-sha256", "-verify", machine.directory.path(of: key), "-signature",
                machine.directory.path(of: signature), machine.directory.path(of: message),
            ])
    }

    @Test func `vaults open and credentials are found`() async throws {
        let machine = try await machine()
        #expect(try await machine.run("vault", "show", "machine").output == "machine secret")
        #expect(
            try await machine.run("vault", "show", "guarded", pins: [Self.pin]).output
                == "guarded secret")
        #expect(try await machine.run("vault", "show", "guarded", pins: ["0000"]).status == 4)
        let found = try await machine.run(
            "credential", "list", "--where", "service=purchase", "--json"
        ).json()
        #expect(found["credentials"]?.array?.count == 1)
    }

    @Test func `the PIN of a key changes, and the old PIN is refused`() async throws {
        let machine = try await machine()
        let changed = try await machine.run("pin", "change", "release", pins: [Self.pin, "258013"])
        #expect(changed.status == 0, "\(changed.errors)")
        let digest = String(repeating: "ab", count: 32)
        #expect(
            try await machine.run("key", "sign", "release", "--digest", digest, pins: ["258013"])
                .status == 0)
        #expect(
            try await machine.run("key", "sign", "release", "--digest", digest, pins: [Self.pin])
                .status == 4)
    }

    @Test func `the login is bound to its server at the first use, and works`() async throws {
        let machine = try await machine()
        let status = try await machine.run("status", "--json").json()
        #expect(status["sessionState"] == "AUTHENTICATED" && status["biometricEnabled"] == true)
        try await withServer(machine) { machine in
            let undecided = try await machine.run("authenticate", "--json", pins: [Self.pin])
            #expect(undecided.status == 10, "\(undecided.output)")
            let bound = try await machine.run(
                "authenticate", "--bind-server", "--json", pins: [Self.pin])
            #expect(bound.status == 0, "\(bound.errors)")
            let other = ["LATCHKEY_ENDPOINT": "http://127.0.0.1:9"]
            #expect(
                try await machine.run("authenticate", pins: [Self.pin], extra: other).status == 10)
            #expect(try await machine.run("logout", "--keep-biometric").status == 0)
            #expect(try await machine.run("authenticate", pins: [Self.pin]).status == 0)
            let disabled = try await machine.run("disable", "--json")
            #expect(disabled.status == 0, "\(disabled.errors)")
        }
    }

    @Test func `the locker opens its texts and starts by the PIN`() async throws {
        try await withServer(machine()) { machine in
            for (level, pins) in [
                ("base", []), ("background", []), ("offline", [Self.pin]), ("active", [Self.pin]),
            ] {
                let text = try String(
                    contentsOf: Self.files.appending(path: "note.\(level)"), encoding: .utf8)
                let opened = try await machine.run(["locker", "decrypt"], pins: pins, input: text)
                #expect(opened.output == "note of level \(level)", "\(opened.errors)")
            }
            let started = try await machine.run(
                "locker", "start", "--level", "easy", "--json", pins: [Self.pin])
            #expect(try started.json()["phase"] == "activeViaEasyAccess", "\(started.errors)")
        }
    }
}
