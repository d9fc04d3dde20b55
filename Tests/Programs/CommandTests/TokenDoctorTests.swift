import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Common problems with tokens, on SoftHSM2.
@Suite(.requires(program: "softhsm2-util"), .timeLimit(.minutes(15)))
struct TokenDoctorTests {
    /// The check that prevents creating a key, and the exit code of `doctor`.
    private func problem(_ machine: Machine, uri: String) async throws -> (
        status: Int32?, check: JSON
    ) {
        let outcome = try await machine.run("doctor", "--json", extra: ["LATCHKEY_TOKEN": uri])
        let check = try outcome.json()["checks"]?.array?.first { $0["state"] == "problem" }
        return (outcome.status, try #require(check, "\(outcome.output)"))
    }

    @Test func `a URI that matches two tokens is reported with both and the next step`()
        async throws
    {
        let (machine, token) = try await Machine.withToken(label: "First")
        try await program(
            "softhsm2-util",
            [
                "--init-token", "--free", "--label", "Second", "--pin", "123456", "--so-pin",
                "12345678",
            ],
            environment: token.environment)
        let (status, check) = try await problem(
            machine, uri: "pkcs11:manufacturer=SoftHSM%20project?module-path=\(token.modulePath)")
        #expect(status == 10)
        #expect(check["name"] == "token")
        #expect(
            check["finding"]?.string?.contains("‘First’ (serial number \(token.serial))") == true,
            "\(check)")
        #expect(check["finding"]?.string?.contains("‘Second’") == true)
        #expect(check["advice"]?.string?.contains("latchkey token list") == true)
        let named = "pkcs11:serial=\(token.serial)?module-path=\(token.modulePath)"
        #expect(try await machine.run("doctor", extra: ["LATCHKEY_TOKEN": named]).status == 0)
    }

    @Test func `SoftHSM2's free slot is skipped if a token matches`() async throws {
        let (machine, token) = try await Machine.withToken(label: "First")
        let uri = [
            "LATCHKEY_TOKEN":
                "pkcs11:manufacturer=SoftHSM%20project?module-path=\(token.modulePath)"
        ]
        #expect(try await machine.run("doctor", extra: uri).status == 0)
        #expect(try await machine.run("key", "create", pins: ["123456"], extra: uri).status == 0)
        let change = try await machine.run("token", "pin", pins: ["123456", "654321"], extra: uri)
        #expect(change.status == 0, "\(change.errors)")
    }

    @Test func `doctor does not warn after a wrong PIN on SoftHSM2, which never locks`()
        async throws
    {
        let (machine, token) = try await Machine.withToken()
        #expect(try await machine.run("key", "create", pins: ["654321"]).status == 4)
        let checks = try #require(try await machine.run("doctor", "--json").json()["checks"]?.array)
        let pin = try #require(checks.first { $0["name"] == "token-pin" })
        #expect(pin["state"] == "ok", "\(pin)")
        #expect(try await !machine.run("token", "list").output.contains("PIN count low"))
        withExtendedLifetime(token) {}
    }

    @Test func `doctor creates a key, which the token does not keep, and says what it did not try`()
        async throws
    {
        let (machine, token) = try await Machine.withToken()
        let checks = try #require(try await machine.run("doctor", "--json").json()["checks"]?.array)
        let key = try #require(checks.first { $0["name"] == "token-key" })
        #expect(key["state"] == "ok")
        #expect(key["finding"]?.string?.contains("created P-256 keys") == true, "\(key)")
        #expect(key["finding"]?.string?.hasSuffix("The PIN was not tried.") == true, "\(key)")
        #expect(try await machine.run("token", "keys").output.hasPrefix("The token shows no keys"))
        withExtendedLifetime(token) {}
    }

    @Test func `a token that is not initialized is a problem`() async throws {
        let (machine, token) = try await Machine.withToken()
        // SoftHSM2 always has one in addition to the initialized tokens.
        let (status, check) = try await problem(
            machine, uri: "pkcs11:token=?module-path=\(token.modulePath)")
        #expect(status == 1)
        #expect(check["name"] == "token")
        #expect(check["finding"]?.string?.hasSuffix("is not initialized.") == true, "\(check)")
        #expect(check["advice"]?.string?.contains("latchkey token init --label") == true)
    }

    @Test func `a missing token is reported with the labels of the present ones`() async throws {
        let (machine, token) = try await Machine.withToken(label: "First")
        let uri = "pkcs11:token=Second?module-path=\(token.modulePath)"
        let (status, check) = try await problem(machine, uri: uri)
        #expect(status == 7)
        #expect(check["name"] == "token")
        #expect(check["finding"]?.string?.contains("‘First’") == true, "\(check)")
        withExtendedLifetime(token) {}
    }

    @Test func `a slot for a token that is not a PIV card is an error`() async throws {
        let (machine, token) = try await Machine.withToken()
        let outcome = try await machine.run(
            "key", "create", "--slot", "9a", "--json", pins: ["123456"])
        #expect(outcome.status == 2, "\(outcome.output)")
        withExtendedLifetime(token) {}
    }

    @Test func `a file that is not a module is a problem`() async throws {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        let path = machine.directory.path(of: "module.so")
        try Data("no library".utf8).write(to: URL(filePath: path))
        let (status, check) = try await problem(machine, uri: "pkcs11:token=x?module-path=\(path)")
        #expect(status == 7)
        #expect(check["name"] == "module")
        #expect(check["finding"]?.string?.contains(path) == true, "\(check)")
    }
}
