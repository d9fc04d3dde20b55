import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// `latchkey credential` on a real software TPM, each call a process of its own.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(3)))
struct CredentialCommandTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    private static func token(_ subject: String, _ more: String = "") -> String {
        let claims = Base64URL.encode(Data(#"{"iss":"https://id.test","aud":"app","sub":"\#(subject)"}"#.utf8))
        return """
            {"access_token":"canary-a","refresh_token":"canary-r","token_type":"Bearer","expires_in":60,\
            "id_token":"e30.\(claims).AA"\(more)}
            """
    }

    private func add(_ machine: Machine, _ arguments: String..., subject: String = "jane") async throws -> String {
        let outcome = try await machine.run(
            ["credential", "add", "--json"] + arguments, pins: ["2580"], input: Self.token(subject))
        #expect(outcome.status == 0, "\(outcome.errors)")
        return try #require(outcome.json()["id"]?.string)
    }

    @Test func `credentials are added, found, tagged, chosen and removed`() async throws {
        let machine = try machine()
        let first = try await add(machine, "--tag", "service=purchase", "--tag", "x=1")
        let second = try await add(machine, "--tag", "service=mail", "--policy", "pin", subject: "june")
        func list(_ arguments: String...) async throws -> [String] {
            let outcome = try await machine.run(
                ["credential", "list", "--json"] + arguments, extra: ["LATCHKEY_TCTI": "swtpm:path=/nonexistent"])
            return try outcome.json()["credentials"]?.array?.compactMap { $0["id"]?.string } ?? []
        }
        #expect(try await list() == [first, second])
        #expect(try await list("--where", "service=mail") == [second])
        #expect(try await list("--where", "claim.sub=jane", "--where", "x=1") == [first])
        #expect(try await list("--where", "claim.sub=jane", "--where", "x=2") == [])

        let shown = try await machine.run("credential", "show", second, "--json").json()
        #expect(shown["policy"] == "pin" && shown["isDefault"] == false)
        #expect(shown["issuer"] == "https://id.test" && shown["clientID"] == "app")
        #expect(shown["claims"]?["sub"] == "june")
        let tagged = try await machine.run("credential", "tag", first, "x=", "y=2", "--json").json()
        #expect(tagged["tags"] == .object(["service": "purchase", "y": "2"]))

        #expect(try await machine.run("credential", "default").output == "\(first)\n")
        #expect(try await machine.run("credential", "default", second).output == "\(second)\n")
        #expect(try await machine.run("credential", "default", "--none", "--json").json()["id"] == .null)
        #expect(try await machine.run("credential", "remove", second).status == 0)
        #expect(try await list() == [first])
    }

    @Test func `a token is never printed`() async throws {
        let machine = try machine()
        let id = try await add(machine)
        for arguments in [
            ["show", id], ["list"], ["show", id, "--json"], ["list", "--json"], ["refresh", id, "--json"],
        ] {
            let outcome = try await machine.run(["credential"] + arguments)
            #expect(!outcome.output.contains("canary") && !outcome.errors.contains("canary"), "\(arguments)")
        }
    }

    @Test func `the exit code says what is wrong`() async throws {
        let machine = try machine()
        #expect(try await machine.run("credential", "add", input: "nonsense").status == 2)
        #expect(
            try await machine.run("credential", "add", input: #"{"access_token":"a","token_type":"Bearer"}"#).status
                == 2)
        #expect(try await machine.run("credential", "add", input: "{}").status == 2)
        #expect(try await machine.run("credential", "show", "nobody").status == 6)
        #expect(try await machine.run("credential", "default", "nobody").status == 6)
        let bare = try await machine.run(
            "credential", "add", "--endpoint", "https://id.test", "--client-id", "app", "--json",
            input: #"{"access_token":"a","token_type":"Bearer"}"#)
        let id = try #require(try bare.json()["id"]?.string)
        #expect(try await machine.run("credential", "refresh", id).status == 6)
        #expect(try await machine.run("credential", "revoke", id, "--type", "refresh-token").status == 6)
    }

    @Test func `a credential of the identity server is refreshed and revoked`() async throws {
        let machine = try machine()
        let directory = try TemporaryDirectory()
        try await IdentityServer.withRunning(database: directory.path(of: "identity.sqlite")) { server in
            let wrong = """
                {"access_token":"a","refresh_token":"r","token_type":"Bearer","issuer":"\(server.endpoint)",\
                "client_id":"\(server.clientID)"}
                """
            let added = try await machine.run("credential", "add", "--json", input: wrong)
            let id = try #require(try added.json()["id"]?.string)
            let refused = try await machine.run("credential", "refresh", id, "--json")
            #expect(refused.status == 9)
            #expect(try refused.json()["error"]?["code"] == "invalidGrant")
            let revoked = try await machine.run("credential", "revoke", id, "--json")
            #expect(revoked.status == 0, "\(revoked.errors)")
            #expect(try revoked.json()["removed"] == true)
        }
    }

    @Test(.requires(program: "python3"))
    func `programs that refresh at once make one request, and both have the token`() async throws {
        let machine = try machine()
        let provider = try await StrictProvider.start()
        let token = """
            {"access_token":"a0","refresh_token":"r0","token_type":"Bearer","expires_in":1,\
            "issuer":"\(provider.issuer)","client_id":"app"}
            """
        let id = try #require(try await machine.run("credential", "add", "--json", input: token).json()["id"]?.string)
        async let one = machine.run("credential", "refresh", id, "--json")
        async let other = machine.run("credential", "refresh", id, "--json")
        let outcomes = try await [one, other]
        #expect(outcomes.map(\.status) == [0, 0], "\(outcomes.map(\.errors))")
        #expect(try outcomes[0].json() == outcomes[1].json())
        // The token is the one that the server takes next.
        #expect(try await machine.run("credential", "refresh", id).status == 0)
        #expect(await provider.stop() == ["refreshed", "refreshed"])
    }
}
