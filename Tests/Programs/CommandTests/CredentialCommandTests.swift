import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey credential`, one process per command.
@Suite(.softwareTPM, .requires(program: "swtpm"))
struct CredentialCommandTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    /// A token response of a server.
    private func answer(_ access: String = "canary-access", refresh: String = "canary-refresh")
        -> String
    {
        #"{"access_token":"\#(access)","token_type":"Bearer","expires_in":60,"refresh_token":"\#(refresh)"}"#
    }

    private let server = ["LATCHKEY_ENDPOINT": "http://127.0.0.1:9", "LATCHKEY_CLIENT_ID": "app"]

    private func add(_ machine: Machine, tags: String...) async throws -> String {
        let options = tags.flatMap { ["--tag", $0] }
        let outcome = try await machine.run(
            ["credential", "add", "--json"] + options, input: answer(), extra: server)
        #expect(outcome.status == 0, "\(outcome.errors)")
        return try #require(outcome.json()["id"]?.string)
    }

    @Test func `add, list, show, tag, default and remove`() async throws {
        let machine = try machine()
        let first = try await add(machine, tags: "service=purchase", "n=1=x")
        let second = try await add(machine)
        let shown = try await machine.run("credential", "show", first, "--json").json()
        let beginning = String(first.prefix(8)).lowercased()
        #expect(try await machine.run("credential", "show", beginning, "--json").json() == shown)
        #expect(
            try await machine.run("credential", "show", String(first.prefix(3)), "--json").status
                == 6)
        #expect(
            Set(shown.keys) == [
                "id", "default", "tags", "claims", "issuer", "clientID", "policy", "refreshable",
                "issuedAt",
                "expiresAt", "createdAt",
            ])
        #expect(shown["default"] == true)
        #expect(shown["tags"] == .object(["service": "purchase", "n": "1=x"]))
        #expect(shown["policy"] == "none")
        #expect(try await ids(machine) == [first, second])
        #expect(try await ids(machine, "--where", "service=purchase") == [first])
        #expect(try await ids(machine, "--where", "service=purchase", "--where", "n=2").isEmpty)

        #expect(
            try await machine.run("credential", "tag", second, "service=other", "--json").status
                == 0)
        #expect(try await machine.run("credential", "tag", second, "more=1", "--json").status == 0)
        #expect(try await ids(machine, "--where", "service=other", "--where", "more=1") == [second])
        let untagged = try await machine.run("credential", "tag", second, "service=", "--json")
        #expect(try untagged.json()["tags"] == .object(["more": "1"]))
        #expect(
            try await machine.run("credential", "default", "--json").json() == [
                "id": .string(first)
            ])
        #expect(
            try await machine.run("credential", "default", second, "--json").json() == [
                "id": .string(second)
            ])
        #expect(try await machine.run("credential", "default").output == "\(second)\n")
        #expect(
            try await machine.run("credential", "remove", second, "--json").json()["removed"]
                == true)
        #expect(try await machine.run("credential", "default", "--json").json() == ["id": nil])
        #expect(try await ids(machine) == [first])
        #expect(try await machine.run("credential", "default", "--none", "--json").status == 0)
    }

    private func ids(_ machine: Machine, _ options: String...) async throws -> [String] {
        let outcome = try await machine.run(["credential", "list", "--json"] + options)
        #expect(outcome.status == 0, "\(outcome.errors)")
        return try #require(outcome.json()["credentials"]?.array).compactMap { $0["id"]?.string }
    }

    @Test func `reading and removing do not use the hardware`() async throws {
        let machine = try machine()
        let id = try await add(machine, tags: "a=1")
        let absent = ["LATCHKEY_TCTI": "device:/nonexistent/tpm"]
        for arguments in [
            ["list", "--where", "a=1"], ["show", id], ["default"], ["default", "--none"],
        ] {
            let outcome = try await machine.run(["credential"] + arguments, extra: absent)
            #expect(outcome.status == 0, "\(outcome.errors)")
        }
        #expect(try await machine.run("credential", "tag", id, "a=2", extra: absent).status == 7)
        #expect(try await machine.run("credential", "remove", id, extra: absent).status == 0)
    }

    @Test func `opening takes few TPM commands, and nothing stays loaded`() async throws {
        let machine = try machine()
        let id = try await add(machine)
        let (listed, none) = try await TPMTraffic.recording(
            machine, ["credential", "list", "--where", "a=1"])
        #expect(listed.status == 0)
        #expect(none.commands.count <= 1, "whether this is the store's TPM: \(none.commands)")
        let (tagged, opened) = try await TPMTraffic.recording(
            machine, ["credential", "tag", id, "a=1"])
        #expect(tagged.status == 0, "\(tagged.errors)")
        #expect((1...4).contains(opened.commands.count), "\(opened.commands)")
        #expect(try await loadedHandles(try SoftwareTPM.current.tcti) == "")
    }

    @Test func `each failure has its exit code`() async throws {
        let machine = try machine()
        let id = try await add(machine)
        func status(_ arguments: String...) async throws -> Int32? {
            let outcome = try await machine.run(["credential"] + arguments + ["--json"])
            #expect(try outcome.json()["error"]?["recovery"]?.string?.isEmpty == false)
            return outcome.status
        }
        #expect(try await status("show", "nobody") == 6)
        #expect(try await status("default", "nobody") == 6)
        #expect(try await status("remove", "nobody") == 6)
        #expect(try await status("refresh", id) == 7)
        #expect(try await status("revoke", id) == 7)
        #expect(try await status("revoke", id, "--type", "device") == 6)
        #expect(try await status("revoke", id, "--type", "everything") == 2)
        #expect(try await status("tag", id, "novalue") == 2)
        #expect(try await status("default", id, "--none") == 2)
        for input in ["", "{", "{}", answer()] {
            let outcome = try await machine.run("credential", "add", "--json", input: input)
            #expect(outcome.status == 2, "\(outcome.output)")
        }
        try store(machine, "credential.metadata.\(id)", attributes: "{}")
        #expect(try await status("show", id) == 8)
        #expect(try await status("refresh", id) == 8)
        #expect(try await status("remove", id, "--container", "other") == 6)
        #expect(try await machine.run("credential", "remove", id).status == 0)
    }

    /// The server is asked first, so a server that does not run uses no attempt.
    @Test func `a PIN-protected token is not opened for a server that does not run`()
        async throws
    {
        let machine = try machine()
        let added = try await machine.run(
            "credential", "add", "--policy", "pin", "--json", pins: ["2580"], input: answer(),
            extra: server)
        #expect(added.status == 0, "\(added.errors)")
        #expect(try added.json()["policy"] == "pin")
        let id = try #require(added.json()["id"]?.string)
        for _ in 0..<4 {
            #expect(try await machine.run("credential", "refresh", id, pins: ["0000"]).status == 7)
        }
        let status = try await machine.run("pin", "status", "--json").json()
        #expect(status["attemptsLeft"] == status["attemptLimit"])
        #expect(try await machine.run("credential", "list").status == 0)
    }

    @Test func `a process that is killed during a refresh does not block others`() async throws {
        let machine = try machine()
        var server: SilentServer? = try SilentServer()
        let context = [
            "LATCHKEY_ENDPOINT": try #require(server).address, "LATCHKEY_CLIENT_ID": "app",
        ]
        let added = try await machine.run(
            ["credential", "add", "--json"], input: answer(), extra: context)
        let id = try #require(added.json()["id"]?.string)
        // The message comes after a second, and on a busy machine before the connection.
        try #require(
            await poll {
                let killed = try await machine.run(
                    "credential", "refresh", id, killedAfter: "Waiting for 127.0.0.1:")
                #expect(killed.status == nil)
                return try #require(server).hadVisitor()
            })
        // The server is stopped, so the exit code is 7. Waiting for the killed process would end
        // with 10.
        server = nil
        #expect(try await machine.run("credential", "refresh", id).status == 7)
    }

    @Test func `no secret is in the output, in the errors, or in the store's clear text`()
        async throws
    {
        let machine = try machine()
        let id = try await add(machine)
        var texts: [String] = []
        for arguments in [
            ["show", id], ["list"], ["refresh", id, "--verbose"], ["revoke", id, "--json"],
        ] {
            let outcome = try await machine.run(["credential"] + arguments)
            texts += [outcome.output, outcome.errors]
        }
        #expect(texts.allSatisfy { !$0.contains("canary") })
        let folder = machine.directory.path(of: "data/latchkey/default")
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            let bytes = try Data(contentsOf: URL(filePath: "\(folder)/\(name)"))
            #expect(bytes.firstRange(of: Data("canary".utf8)) == nil)
        }
    }

    @Test(.requiresOpenIDProvider)
    func `two concurrent refreshes make one request, and the token works for both`() async throws {
        let machine = try machine()
        let (_, requests) = try await OpenIDProvider.withRunning(holding: 12) { provider in
            let answer = String(decoding: provider.answer, as: UTF8.self)
            let token = """
                {"version":1,"id":"shared","issuedAt":1800000000,"context":{"issuer":"\(provider.issuer)",\
                "clientID":"\(provider.clientID)","clientSecret":"\(provider.clientSecret)"},"response":\(answer)}
                """
            let added = try await machine.run("credential", "add", "--json", input: token)
            #expect(added.status == 0, "\(added.errors)")
            #expect(try added.json()["id"] == "shared")
            #expect(try await ids(machine, "--where", "claim.sub=jane") == ["shared"])
            async let first = machine.run("credential", "refresh", "shared", "--json")
            async let second = machine.run("credential", "refresh", "shared", "--json")
            let outcomes = try await [first, second]
            #expect(outcomes.map(\.status) == [0, 0], "\(outcomes.map(\.errors))")
            #expect(try outcomes[0].json() == outcomes[1].json())
            // The server accepts the stored token.
            #expect(try await machine.run("credential", "refresh", "shared").status == 0)
            let revoked = try await machine.run("credential", "revoke", "shared", "--json")
            #expect(try revoked.json()["removed"] == true, "\(revoked.errors)")
            #expect(try await machine.run("credential", "add", input: token).status == 0)
            #expect(try await machine.run("credential", "refresh", "shared").status == 9)
        }
        #expect(requests == 3)
    }
}
