import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// Login and credentials with servers whose answers are not those of the standard's examples.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .requires(program: "openssl"), .requires(program: "curl"), .timeLimit(.minutes(15)))
struct OddServerTests {
    /// Stores a credential whose refresh token the server accepts.
    private func credential(_ machine: Machine, _ server: OddServer) async throws -> String {
        let added = try await machine.run(
            ["credential", "add", "--json"], input: try await server.signIn())
        return try #require(added.json()["id"]?.string, "\(added)")
    }

    /// The code of the error, and its texts.
    private func error(_ outcome: Outcome) throws -> (code: String?, text: String) {
        (try outcome.json()["error"]?["code"]?.string, outcome.output)
    }

    /// Optional members of a token answer, and whether each is skipped with a reason.
    static let acceptable: [(manner: String, note: String?)] = [
        (#"{"expires_in": "3600"}"#, nil), (#"{"expires_in": 3599.5}"#, nil),
        (#"{"expires_in": "DELETE"}"#, nil), (#"{"expires_in": null}"#, nil),
        (#"{"expires_in": true}"#, "‘expires_in’"), (#"{"expires_in": "soon"}"#, "‘expires_in’"),
        (#"{"expires_in": -1}"#, "‘expires_in’"), (#"{"expires_in": [3600]}"#, "‘expires_in’"),
        (#"{"scope": ["openid"]}"#, nil), (#"{"scope": [5]}"#, "‘scope’"),
        (#"{"scope": null}"#, nil), (#"{"expires_in": " 3600 "}"#, nil),
        (#"{"scope": ""}"#, nil),
        (#"{"token_type": "bearer"}"#, nil), (#"{"device_secret": 5}"#, "‘device_secret’"),
        (#"{"issued_token_type": {}}"#, "‘issued_token_type’"), (#"{"x": [{"y": null}]}"#, nil),
    ]

    @Test(arguments: acceptable.indices)
    func `optional members do not make a token answer invalid, for login and credentials`(
        index: Int
    ) async throws {
        let (members, note) = Self.acceptable[index]
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            try server.set(#"{"token": \#(members)}"#)
            for command in [["login"], ["credential", "refresh", id]] {
                let outcome = try await machine.run(command + ["--verbose"])
                #expect(outcome.status == 0, "\(outcome)")
                #expect(
                    outcome.errors.contains("is skipped, because") == (note != nil), "\(outcome)")
                if let note { #expect(outcome.errors.contains(note), "\(outcome)") }
            }
        }
    }

    /// Answers without a usable access token or ID token, with the words that name the cause.
    static let unusable: [(manner: String, words: String)] = [
        (#"{"token": {"access_token": "DELETE"}}"#, "has no ‘access_token’"),
        (#"{"token": {"access_token": 5}}"#, "‘access_token’ is not a string"),
        (#"{"token": {"access_token": "a b"}}"#, "‘access_token’ is not a string of visible"),
        (#"{"token": {"token_type": {}}}"#, "‘token_type’ is not a string"),
        (
            #"{"body": "{\"access_token\":\"ACCESS\",\"token_type\":\"Bearer\",\"refresh_token\":\"REFRESH\",\"scope\":\"a\",\"scope\":\"b\"}"}"#,
            "repeats the member ‘scope’"
        ),
        (#"{"claims": {"sub": "eve"}}"#, "another user"),
        (#"{"claims": {"sub": 5}}"#, "‘sub’ is not a string"),
        (#"{"claims": {"sub": "DELETE"}}"#, "‘sub’ is missing"),
        (#"{"body": "access_token=ACCESS&token_type=bearer&refresh_token=REFRESH"}"#, "not a JSON"),
        (
            #"{"body": ")]}'\n{\"access_token\":\"ACCESS\",\"refresh_token\":\"REFRESH\"}"}"#,
            "not a JSON"
        ),
        (#"{"claims": {"exp": "soon"}}"#, "‘exp’ is not a number"),
        (#"{"claims": {"aud": null}}"#, "‘aud’ is neither"),
        (#"{"claims": {"azp": null}}"#, "‘azp’ is not a string"),
    ]

    /// The old refresh token is used up, so each answer's new one must be stored, whatever else the
    /// answer has.
    @Test(arguments: unusable.indices)
    func `an answer that is not used does not cost the refresh token`(index: Int) async throws {
        let (manner, words) = Self.unusable[index]
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            try await machine.require("login")
            for command in [["enable"], ["credential", "refresh", id]] {
                try server.set(manner)
                for _ in 0..<2 {
                    let refused = try await machine.run(command + ["--json"], pins: ["2580"])
                    let (code, text) = try error(refused)
                    #expect(["invalidResponse", "invalidToken"].contains(code), "\(refused)")
                    #expect(text.contains(words), "\(refused)")
                    #expect(refused.status == 9, "\(refused)")
                }
                try server.set("{}")
                let healed = try await machine.run(command + ["--json"], pins: ["2580"])
                if command[0] == "credential" {
                    #expect(healed.status == 0, "\(healed)")
                } else {
                    // This server has no biometric login. The session still exists.
                    #expect(try error(healed).code == "unexpectedStatus", "\(healed)")
                }
            }
        }
    }

    @Test func `a kill between the answer and its validation costs no refresh token`() async throws
    {
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            let tokens = server.count("POST /token")
            // The validation needs a new key, and the server lets the client wait for it.
            try server.set(
                #"{"header": {"kid": "k2"}, "hang": "/keys", "after": "/token"}"#)
            let tool = try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                ["-i"] + machine.environment.map { "\($0)=\($1)" } + [
                    Products.latchkey.string, "credential", "refresh", id,
                ])
            let isValidating = await poll {
                server.requests.suffix(2) == ["POST /token", "GET /keys"]
            }
            #expect(isValidating, "\(server.requests)")
            #expect(await tool.stop(SIGKILL) == SIGKILL)
            #expect(server.count("POST /token") == tokens + 1, "the answer was sent")
            try server.set(#"{"header": {"kid": "k2"}, "jwk": {"kid": "k2"}}"#)
            try await machine.require("credential", "refresh", id)
            #expect(server.count("POST /token") == tokens + 1, "the stored answer is used")
            try await machine.require("credential", "refresh", id)
        }
    }

    @Test func `an unknown key causes one more read of the keys, and no endless retry`()
        async throws
    {
        try await OddServer.with(#"{"header": {"kid": "k2"}}"#) { machine, server in
            let id = try await credential(machine, server)
            let refused = try await machine.run("credential", "refresh", id, "--json")
            #expect(try error(refused).code == "invalidToken", "\(refused)")
            #expect(refused.status == 9, "\(refused)")
            #expect(server.count("GET /keys") == 2)
        }
    }

    @Test func `compressed answers are read`() async throws {
        try await OddServer.with(#"{"gzip": true}"#) { machine, server in
            try await machine.require("login")
            try server.set("{}")
            let id = try await credential(machine, server)
            try server.set(#"{"gzip": true}"#)
            try await machine.require("credential", "refresh", id)
        }
    }

    /// The content types that servers send, and forms of HTTP.
    @Test(arguments: [
        #"{"fields": {"Content-Type": "application/json; charset=utf-8"}}"#,
        #"{"fields": {"Content-Type": "APPLICATION/JSON;CHARSET=\"UTF-8\""}}"#,
        #"{"fields": {"Content-Type": "text/json"}}"#,
        #"{"fields": {"Content-Type": "text/html"}}"#,
        #"{"fields": {"Content-Type": ""}}"#, #"{"chunked": true}"#, #"{"bom": true}"#,
        #"{"form": true}"#,
        #"{"fields": {"Cache-Control": "no-store", "Set-Cookie": "a=b", "X-Odd": "ä"}}"#,
        #"{"path": "/realms/one"}"#, #"{"path": "/realms/one", "slash": "/"}"#, #"{"slash": "/"}"#,
        #"{"path": "/realms/one", "oauth": true}"#, #"{"oauth": true}"#,
        #"{"path": "/realms/one", "slash": "/", "oauth": true}"#,
    ])
    func `answers in other forms are read`(manner: String) async throws {
        try await OddServer.with(manner) { given, server in
            var machine = given
            if manner.contains("/realms/one") {
                machine.environment["LATCHKEY_ENDPOINT"] = "\(server.address)/realms/one"
            }
            let doctor = try await machine.run("doctor", "--json").json()["checks"]?.array
            #expect(doctor?.first { $0["name"] == "server" }?["state"] == "ok", "\(doctor ?? [])")
            try await machine.require("login")
            let path = manner.contains("/realms/one") ? "/realms/one" : ""
            let added = try await machine.run(
                ["credential", "add", "--json"],
                input: try await server.signIn(at: path).replacing("\u{FEFF}", with: ""))
            let id = try #require(added.json()["id"]?.string, "\(added)")
            try await machine.require("credential", "refresh", id)
        }
    }

    @Test(arguments: [
        (#"{"status": 204, "body": ""}"#, "the server's token response is not a JSON object"),
        (#"{"body": "<html>"}"#, "the server's token response is not a JSON object"),
        (#"{"body": "[]"}"#, "the server's token response is not a JSON object"),
        (#"{"status": 502, "body": "<html>"}"#, "the server answered with status 502"),
        (#"{"status": 307, "body": ""}"#, "status 307, a redirect"),
        (
            #"{"status": 429, "body": "", "fields": {"Retry-After": "120"}}"#,
            "Wait 2 minutes, then try again."
        ),
        (
            #"{"status": 503, "body": "", "fields": {"Retry-After": "3600"}}"#,
            "Wait 1 hour, then try again."
        ),
    ])
    func `an answer without tokens is named with its cause`(manner: String, words: String)
        async throws
    {
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            try server.set(manner)
            for command in [["login"], ["credential", "refresh", id]] {
                let (_, text) = try error(try await machine.run(command + ["--json"]))
                #expect(text.contains(words), "\(text)")
            }
        }
    }

    /// A login uses bearer tokens. A credential of another type is kept for the app, and a refresh keeps
    /// the type that it does not state.
    @Test func `a login without a bearer token is refused, and a refresh succeeds`() async throws {
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            for (type, words) in [
                ("DELETE", "has no ‘token_type’"),
                ("mac", "is of the type ‘mac’, neither ‘Bearer’ nor ‘DPoP’"),
            ] {
                try server.set(#"{"token": {"token_type": "\#(type)"}}"#)
                let (_, text) = try error(try await machine.run("login", "--json"))
                #expect(text.contains(words), "\(text)")
                try await machine.require("credential", "refresh", id)
            }
        }
    }

    @Test func `a login without an ID token is refused, and a refresh without one succeeds`()
        async throws
    {
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            for value in [#""DELETE""#, "null", "\"\""] {
                try server.set(#"{"token": {"id_token": \#(value)}}"#)
                let (_, text) = try error(try await machine.run("login", "--json"))
                #expect(text.contains("has no ‘id_token’"), "\(text)")
                try await machine.require("credential", "refresh", id)
            }
        }
    }

    /// Entries of a key set that are no usable keys, before the one that is.
    @Test(arguments: [
        #"{"kty": "oct", "k": "AA", "kid": "k1"}"#, #"{"kty": "AKP", "alg": "ML-DSA-44"}"#,
        #"{"kty": "RSA", "x5c": ["MIIB"], "x5t": "AA"}"#, #"{"kty": "EC", "crv": "P-256K"}"#,
        #"{"kty": "OKP", "crv": "X25519", "x": "AA", "use": "enc"}"#, "{}", "null", "5", "[]",
        #""text""#, #"{"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "k1"}"#,
        #"{"kty": "RSA", "alg": "RSA-OAEP", "use": "enc", "n": "AQAB", "e": "AQAB", "kid": "k1"}"#,
        """
        {"kty": "EC", "crv": "P-256", "kid": "k1", "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
         "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"}
        """,
    ])
    func `other entries of a key set do not matter`(entry: String) async throws {
        try await OddServer.with(#"{"moreKeys": [\#(entry)]}"#) { machine, server in
            try await machine.require("login")
            let id = try await credential(machine, server)
            try await machine.require("credential", "refresh", id)
        }
    }

    @Test(arguments: [#""/revoke""#, "\"\"", "5", #""http://example.com/revoke""#])
    func `an endpoint of one operation that cannot be used affects no other one`(value: String)
        async throws
    {
        let metadata = #"""
            {"revocation_endpoint": \#(value), "introspection_endpoint": \#(value),
             "userinfo_endpoint": \#(value), "device_authorization_endpoint": \#(value)}
            """#
        try await OddServer.with(#"{"metadata": \#(metadata)}"#) { machine, server in
            let id = try await credential(machine, server)
            try await machine.require("credential", "refresh", id)
            let refused = try await machine.run("credential", "revoke", id, "--json")
            #expect(refused.output.contains("no usable ‘revocation_endpoint’"), "\(refused)")
            try server.set(#"{"metadata": {"token_endpoint": \#(value)}}"#)
            let outcome = try await machine.run("credential", "refresh", id, "--json")
            #expect(outcome.output.contains("‘token_endpoint’"), "\(outcome)")
        }
    }

    @Test func `a server that fails ends no session`() async throws {
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            try await machine.require("login")
            try server.set(#"{"status": 503, "body": {"error": "invalid_grant"}}"#)
            for command in [["enable"], ["credential", "refresh", id]] {
                let failed = try await machine.run(command + ["--json"], pins: ["2580"])
                #expect(try error(failed).code == "oauthError", "\(failed)")
            }
            try server.set("{}")
            try await machine.require("credential", "refresh", id)
            // This server has no biometric login. The session still exists.
            let (code, _) = try error(try await machine.run(["enable", "--json"], pins: ["2580"]))
            #expect(code == "unexpectedStatus")
        }
    }

    // MARK: Signatures

    @Test(arguments: [
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    ])
    func `ID tokens that OpenSSL signed are accepted`(algorithm: String) async throws {
        try await OddServer.with(#"{"alg": "\#(algorithm)"}"#) { machine, server in
            try await machine.require("login")
            let id = try await credential(machine, server)
            try await machine.require("credential", "refresh", id)
        }
    }

    @Test func `an algorithm that is not supported is named, with the supported ones`() async throws
    {
        try await OddServer.with(#"{"header": {"alg": "ES256K"}}"#) { machine, server in
            let id = try await credential(machine, server)
            for command in [["login"], ["credential", "refresh", id]] {
                let (code, text) = try error(try await machine.run(command + ["--json"]))
                #expect(code == "unsupported")
                #expect(text.contains("‘ES256K’") && text.contains("ES384"), "\(text)")
                #expect(!text.contains("trust"), "\(text)")
            }
            // The metadata says it before the browser opens, and before the refresh token is used.
            try server.set(
                #"{"metadata": {"id_token_signing_alg_values_supported": ["ES256K", "HS256"]}}"#)
            let before = server.requests
            for command in [["login"], ["credential", "refresh", id]] {
                let (code, text) = try error(try await machine.run(command + ["--json"]))
                #expect(code == "unsupported")
                #expect(text.contains("‘ES256K’, ‘HS256’"), "\(text)")
            }
            for path in ["GET /authorize", "POST /token"] {
                #expect(server.count(path) == before.count { $0 == path })
            }
            // The advice: the operator chooses a supported algorithm.
            for metadata in [#"["HS256", "RS256"]"#, "[]", "5", "null"] {
                try server.set(
                    #"{"metadata": {"id_token_signing_alg_values_supported": \#(metadata)}}"#)
                try await machine.require("login")
                try await machine.require("credential", "refresh", id)
            }
        }
    }

    /// Keys that cannot be used, with the words that name the cause.
    static let oddKeys: [(key: String, words: String)] = [
        (#"{"kid": 7}"#, "‘kid’ is not a string"), (#"{"n": "AQAB=="}"#, "‘n’ is not base64url"),
        (#"{"kty": "DELETE"}"#, "‘kty’ is missing"),
        (#"{"kty": "oct"}"#, "the key type ‘oct’ is not supported"),
        (#"{"kty": "EC", "crv": "secp256k1"}"#, "the curve ‘secp256k1’ is not supported"),
        (#"{"n": "AQAB"}"#, "key ‘k1’"), (#"{"e": null}"#, "‘e’ is missing"),
        (#"{"kid": "other"}"#, "the key ‘k1’, and the server's key set has no such usable key"),
        (#"{"use": "enc"}"#, "the key ‘k1’, and the server's key set has no such usable key"),
    ]

    @Test(arguments: oddKeys.indices)
    func `a key that cannot be used is named, and the server is not accused`(index: Int)
        async throws
    {
        let (change, words) = Self.oddKeys[index]
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            try server.set(#"{"jwk": \#(change)}"#)
            for command in [["login"], ["credential", "refresh", id]] {
                let outcome = try await machine.run(command + ["--json"])
                let (code, text) = try error(outcome)
                #expect(code == "invalidToken", "\(outcome)")
                #expect(text.contains(words), "\(outcome)")
                #expect(!text.contains("trust"), "\(outcome)")
            }
            // The server's operator corrects the key set.
            try server.set("{}")
            try await machine.require("credential", "refresh", id)
            try await machine.require("login")
        }
    }

    @Test func `a key without a name verifies a token that names one`() async throws {
        try await OddServer.with(#"{"jwk": {"kid": "DELETE", "use": "DELETE", "alg": "DELETE"}}"#) {
            machine, server in
            try await machine.require("login")
            let id = try await credential(machine, server)
            try await machine.require("credential", "refresh", id)
        }
    }

    @Test func `only a wrong signature accuses the server`() async throws {
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            let other = try await OddServer()
            let keys = try await SystemProgram("curl").result(of: [
                "--silent", "--noproxy", "*", "\(other.address)/keys",
            ]).output
            let list = keys.dropFirst(#"{"keys": "#.count).dropLast()
            try server.set(#"{"keys": \#(list)}"#)
            for command in [["login"], ["credential", "refresh", id]] {
                let (code, text) = try error(try await machine.run(command + ["--json"]))
                #expect(code == "invalidToken")
                #expect(text.contains("the signature is wrong"), "\(text)")
                #expect(text.contains("do not trust the server"), "\(text)")
            }
            await other.stop()
        }
    }

    // MARK: Errors of the server

    @Test(arguments: [
        (#"{"errorCode": "E0000022", "errorSummary": "Words"}"#, "Words (E0000022)"),
        (#"{"error": {"code": 400, "message": "Words", "status": "INVALID"}}"#, "Words (INVALID)"),
        (#"{"error": {"errors": [], "code": "bad_thing"}}"#, "bad_thing"),
        (#"{"error": "odd", "error_description": ["Words"]}"#, "‘odd’"),
        (#"{"error": "odd", "message": "Words"}"#, "‘odd’ (Words)"),
        (#"{"errors": [{"code": "c", "message": "Words"}]}"#, "Words (c)"),
        (#"{"title": "Words", "status": 400}"#, "Words (400)"),
        (#"{"detail": "Words"}"#, "Words"), (#"{"errors": ["Words", "More"]}"#, "Words"),
        (#"{"Error": "bad", "Message": "Words"}"#, "Words (bad)"),
        (#"{"fault": {"faultstring": "Words", "detail": {"errorcode": "x"}}}"#, "Words"),
        (#"{"code": 7, "msg": "Words"}"#, "Words (7)"),
        (#""error=bad_code&error_description=Words""#, "‘bad_code’ (Words)"),
        (#"{"error": true}"#, "status 400"),
    ])
    func `the server's words are shown`(body: String, words: String) async throws {
        let manner = #"{"status": 400, "body": \#(body)}"#
        try await OddServer.with { machine, server in
            let id = try await credential(machine, server)
            try server.set(manner)
            for command in [["login"], ["credential", "refresh", id]] {
                let (_, text) = try error(try await machine.run(command + ["--json"]))
                #expect(text.contains(words), "\(text)")
            }
        }
    }

    @Test(arguments: ["", #", "access_token": "a", "token_type": "Bearer""#])
    func `an error with status 200 is an error, with any other members`(more: String) async throws {
        let refusal = #""error": "bad_verification_code", "error_description": "Words""#
        let manner = #"{"body": {\#(refusal)\#(more)}}"#
        try await OddServer.with(manner) { machine, _ in
            let (code, text) = try error(try await machine.run("login", "--json"))
            #expect(code == "oauthError")
            #expect(text.contains("‘bad_verification_code’ (Words)"), "\(text)")
        }
    }
}
