import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// The tool on a PIV card without attestation, one process per command.
@Suite(
    .virtualYubiKey(.thirdPartyPIV(serialNumber: 7)), .requires(program: "python3"),
    .enabled(if: FileManager.default.fileExists(atPath: yubicoModule), "needs ykcs11"),
    .enabled(if: FileManager.default.fileExists(atPath: openSCModule), "needs opensc-pkcs11"),
    .timeLimit(.minutes(15)))
struct ThirdPartyCardCommandTests {
    private let pin = CardProfile.defaultPIN
    private let answer =
        #"{"access_token":"a","token_type":"Bearer","expires_in":60,"refresh_token":"r"}"#

    /// - Parameter browser: The program for `$BROWSER`; nil for a scripted one that logs in.
    private func withServer(
        _ module: String, key: String = "", browser: String? = nil,
        _ body: (Machine) async throws -> Void
    ) async throws {
        let base = try Machine(tcti: "device:/nonexistent/tpm")
        try await IdentityProcess.withRunning(database: base.directory.path(of: "identity.sqlite"))
        { server in
            var machine = base
            machine.environment["LATCHKEY_TOKEN"] = "pkcs11:\(key)?module-path=\(module)"
            machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
            machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
            machine.environment["BROWSER"] =
                try browser ?? ScriptedBrowser(user: server.users[0], in: machine.directory).path
            try await body(machine)
        }
    }

    private func expect(
        _ machine: Machine, _ arguments: String..., pins: [String] = [], input: String = "",
        output: String? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let outcome = try await machine.run(arguments, pins: pins, input: input)
        #expect(
            outcome.status == 0, "\(arguments): \(outcome.errors)", sourceLocation: sourceLocation)
        if let output { #expect(outcome.output == output, sourceLocation: sourceLocation) }
    }

    /// - Parameter creation: The proofs that the module requires to create a key, in addition to
    ///   the PIN.
    private func expectWholeLife(_ machine: Machine, creation: [String]) async throws {
        try await expect(machine, "login", pins: creation)
        try await expect(machine, "enable", "--policy", "pin", pins: creation + [pin])
        try await expect(machine, "authenticate", pins: [pin])

        try await expect(machine, "vault", "store", "plain", input: "one")
        try await expect(
            machine, "vault", "store", "first", "--biometrics", pins: creation + [pin], input: "two"
        )
        try await expect(
            machine, "vault", "store", "second", "--biometrics", pins: [pin], input: "three")
        try await expect(machine, "vault", "show", "plain", output: "one")
        try await expect(machine, "vault", "show", "first", pins: [pin], output: "two")
        try await expect(machine, "vault", "reset", "first", "--yes")
        try await expect(machine, "vault", "reset", "second", "--yes")
        // No record is sealed under the PIN now.
        try await expect(
            machine, "vault", "store", "first", "--biometrics", pins: [pin], input: "four")
        try await expect(machine, "vault", "show", "first", pins: [pin], output: "four")
        try await expect(machine, "vault", "store", "plain", "--container", "other", input: "five")
        try await expect(machine, "vault", "show", "plain", "--container", "other", output: "five")

        try await expect(machine, "credential", "add", input: answer)
        try await expect(
            machine, "credential", "add", "--policy", "pin", pins: [pin], input: answer)
        try await expect(machine, "disable")
        #expect(try await machine.run("status", "--json").json()["biometricEnabled"] == false)
    }

    @Test func `login, vault and credential work through ykcs11`() async throws {
        try await withServer(yubicoModule) { machine in
            try await expectWholeLife(machine, creation: [VirtualYubiKey.factoryManagementKey])
        }
        // The login key in 9c, and the sealing keys.
        #expect(try VirtualYubiKey.current.card.publicPoints.count == 3)
    }

    @Test func `login, vault and credential work through OpenSC with existing keys`() async throws {
        for slot in [KeySlot.authentication, .keyManagement, .cardAuthentication] {
            try await VirtualYubiKey.current.provision(slot)
        }
        try await withServer(openSCModule, key: "id=%01") { machine in
            try await expectWholeLife(machine, creation: [])
        }
    }

    @Test func `a credential is stored first, in a new store`() async throws {
        try await withServer(yubicoModule) { machine in
            try await expect(
                machine, "credential", "add", pins: [VirtualYubiKey.factoryManagementKey],
                input: answer)
        }
    }

    /// Another program's key in a slot for sealing. There is no source of PINs, so that a prompt
    /// would be exit 7.
    @Test(arguments: [
        (KeySlot.cardAuthentication, ["login"]), (.cardAuthentication, ["vault", "store", "a"]),
        (.keyManagement, ["vault", "store", "a", "--biometrics"]),
        (.keyManagement, ["credential", "add", "--policy", "pin"]),
        (.cardAuthentication, ["credential", "add"]),
    ])
    func `a foreign sealing key is refused before a prompt, the browser and a new key`(
        _ slot: KeySlot, _ arguments: [String]
    ) async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(slot)
        let keys = yubiKey.card.publicPoints
        try await TemporaryDirectory.withDirectory { directory in
            let opened = directory.path(of: "opened")
            let browser = try directory.makeScript("browser", "#!/bin/sh\ntouch '\(opened)'\n")
            try await withServer(yubicoModule, browser: browser) { machine in
                let outcome = try await machine.run(arguments + ["--json"], input: answer)
                #expect(outcome.status == 1, "\(outcome.output)")
                let error = try outcome.json()["error"]
                #expect(error?["code"] == "refused")
                #expect(
                    error?["message"]?.string?.contains("the card has no attestation") == true,
                    "\(outcome.output)")
                #expect(
                    error?["recovery"]?.string?.contains("or another token") == true,
                    "\(outcome.output)")
            }
            #expect(!FileManager.default.fileExists(atPath: opened))
        }
        #expect(yubiKey.card.publicPoints == keys)
    }

    @Test func `token keys lists the slots without a prompt`() async throws {
        try await VirtualYubiKey.current.provision(.authentication)
        try await withServer(yubicoModule) { machine in
            let outcome = try await machine.run("token", "keys", "--json")
            let keys = try outcome.json()["keys"]?.array
            #expect(keys?.map { $0["slot"] } == ["9a"], "\(outcome.errors)")
            let uri = try #require(keys?.first?["uri"]?.string)
            let adopted = try await machine.run(
                "key", "create", pins: [pin], extra: ["LATCHKEY_TOKEN": uri])
            #expect(adopted.status == 0, "\(adopted.errors)")
        }
    }
}

private let yubicoModule = "/usr/lib/x86_64-linux-gnu/libykcs11.so"
private let openSCModule = "/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so"
