import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The tool on SoftHSM2 behind `p11-kit server`, and with concurrent processes on SoftHSM2.
@Suite(.requires(program: "softhsm2-util"), .timeLimit(.minutes(15)))
struct ForwardedTokenTests {
    @Test(.requires(program: "p11-kit"), .requires(program: "python3"))
    func `log in, enable, authenticate and disable through p11-kit's client`() async throws {
        let token = try await SoftwareToken(userPIN: "123456", placement: .ownDirectory)
        try await ForwardedToken.withServer(for: token) { forwarded in
            var machine = try Machine(tcti: "device:/nonexistent/tpm")
            machine.environment.merge(forwarded.environment) { $1 }
            machine.environment["LATCHKEY_TOKEN"] = forwarded.uri
            try await IdentityProcess.withRunning(
                database: machine.directory.path(of: "identity.sqlite")
            ) { server in
                machine = try machine.at(server)
                let login = try await machine.run("login", "--json", pins: ["123456"])
                #expect(login.status == 0, "\(login.errors)")
                let enabled = try await machine.run("enable", "--json", pins: ["123456"])
                #expect(enabled.status == 0, "\(enabled.errors)")
                #expect(try await machine.run("authenticate", pins: ["654321"]).status == 4)
                let back = try await machine.run("authenticate", "--json", pins: ["123456"])
                #expect(try back.json()["kid"] == enabled.json()["kid"], "\(back.errors)")
                #expect(try await machine.run("disable", pins: ["123456"]).status == 0)
                #expect(try await machine.run("authenticate", pins: ["123456"]).status == 6)
            }
        }
    }

    @Test func `20 processes that write to a SoftHSM2 token at once create 20 keys`() async throws {
        let (machine, token) = try await Machine.withToken()
        // The store exists.
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        let outcomes = try await withThrowingTaskGroup(of: Outcome.self) { group in
            for _ in 0..<20 {
                group.addTask { try await machine.run("key", "create", "--policy", "none") }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let failures = outcomes.filter { $0.status != 0 }.map {
            "exit \($0.status ?? -1): \($0.errors)"
        }
        #expect(failures == [])
        #expect(try await machine.run("key", "list", "--json").json()["keys"]?.array?.count == 21)
        withExtendedLifetime(token) {}
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: tpmModule), "needs libtpm2-pkcs11-1"))
    func `token list shows the messages of a module only with --verbose`() async throws {
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment["TSS2_LOG"] = nil
        let uri = "pkcs11:?module-path=\(tpmModule)"
        #expect(
            try await !machine.run("--token", uri, "token", "list").errors.contains("ERROR:"))
        #expect(
            try await machine.run("--token", uri, "token", "list", "--verbose").errors.contains(
                "ERROR:"))
    }
}

private let tpmModule = "/usr/lib/x86_64-linux-gnu/pkcs11/libtpm2_pkcs11.so"
